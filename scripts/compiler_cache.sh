# shellcheck shell=bash
# Sourced from the root of the repository: what was compiled once is used again. So the wheel of 'make package', which is
# built of the same sources in another folder, costs seconds. ccache is used if it is there and nobody chose a compiler.
export CYTHON_CACHE_DIR=$PWD/build/cache/cython
if command -v ccache >/dev/null && [ -z "${CC:-}${CXX:-}" ]; then
    export CC="ccache gcc" CXX="ccache g++" CCACHE_DIR=$PWD/build/cache/ccache CCACHE_NOHASHDIR=1
fi
