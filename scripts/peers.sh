#!/usr/bin/env bash
# Build the allocators and the planner that the benchmarks are compared with, in out/peers. Needs git, cmake and a C++
# compiler. A folder of checkouts in PEER_SOURCES (mimalloc, OffsetAllocator, minimalloc) is used instead of the network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
peers=$PWD/out/peers
sources=${PEER_SOURCES:-$peers/src}
mkdir -p "$peers" "$sources"

checkout() { [ -e "$sources/${1##*/}" ] || git clone --quiet --depth 1 --recurse-submodules "https://github.com/$1" "$sources/${1##*/}"; }
checkout microsoft/mimalloc
checkout sebbbi/OffsetAllocator
checkout google/minimalloc

cmake -S "$sources/mimalloc" -B "$peers/mimalloc" -DCMAKE_BUILD_TYPE=Release -DMI_BUILD_TESTS=OFF \
    -DMI_BUILD_STATIC=OFF -DMI_BUILD_OBJECT=OFF >/dev/null
cmake --build "$peers/mimalloc" >/dev/null
c++ -O2 -shared -fPIC -o "$peers/liboffsetallocator.so" "$sources/OffsetAllocator/offsetAllocator.cpp"
cmake -S "$sources/minimalloc" -B "$peers/minimalloc" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$peers/minimalloc" --target minimalloc >/dev/null
ls "$peers/mimalloc/libmimalloc.so" "$peers/liboffsetallocator.so" "$peers/minimalloc/minimalloc"
