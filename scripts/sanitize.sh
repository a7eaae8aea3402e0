#!/usr/bin/env bash
# The C heap under random use by several threads, built with the sanitizers: address and undefined behaviour, then threads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=${1:-20000}
mkdir -p build/sanitize
for kind in address,undefined thread; do
    program=build/sanitize/heap_stress-${kind%%,*}
    "${CC:-cc}" -std=c11 -g -O1 -Wall -Wextra -Wundef -Werror -fsanitize="$kind" -fno-sanitize-recover=all \
        -Iallocator/native tests/native/heap_stress.c allocator/native/*.c -o "$program" -lpthread
    for threads in 1 4; do
        printf '%-18s ' "$kind"
        "$program" "$steps" "$threads"
    done
done
