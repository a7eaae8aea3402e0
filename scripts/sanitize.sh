#!/usr/bin/env bash
# The C heap and the exact search under random use by several threads, built with the sanitizers: address and undefined
# behaviour, then threads. And the layouts of XNNPACK's scratch with the first of these.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=${1:-20000}
mkdir -p build/sanitize
for program in heap_stress exact_stress; do
    [[ $program == exact_stress ]] && steps=$((steps / 5))  # each of its steps is a problem solved in several ways
    for kind in address,undefined thread; do
        binary=build/sanitize/$program-${kind%%,*}
        "${CC:-cc}" -std=c11 -g -O1 -Wall -Wextra -Wundef -Werror -fsanitize="$kind" -fno-sanitize-recover=all \
            -Iallocator/native "tests/native/$program.c" allocator/native/*.c -o "$binary" -lpthread
        for threads in 1 4; do
            printf '%-18s ' "$kind"
            "$binary" "$steps" "$threads"
        done
    done
done

binary=build/sanitize/layout_stress
"${CXX:-c++}" -std=c++17 -g -O1 -Wall -Wextra -Wundef -Werror -fsanitize=address,undefined -fno-sanitize-recover=all \
    -Idelegates/xnnpack/native -Iallocator/native tests/native/layout_stress.cpp \
    delegates/xnnpack/native/{layout,packed_plan}.cpp -o "$binary"
printf '%-18s ' address,undefined
"$binary" "$steps"
