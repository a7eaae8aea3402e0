#!/usr/bin/env bash
# Every check that needs no test run. Tools come from the extra "lint"; native modules must be built (make lint does both).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PATH"

failed=()
check() {
    local name=$1
    shift
    if "$@"; then printf 'ok      %s\n' "$name"; else printf 'FAILED  %s\n' "$name"; failed+=("$name"); fi
}
# Files of the repository that match, without those deleted but not yet committed.
tracked() {
    git ls-files --cached --others --exclude-standard -- "$@" | while read -r path; do
        [ ! -f "$path" ] || printf '%s\n' "$path"
    done
}

mapfile -t cython < <(tracked '*.pyx' '*.pxd')
mapfile -t native < <(tracked '*.h' '*.c' '*.cpp')
mapfile -t shell < <(tracked '*.sh' '.ci/run')
mapfile -t stubs < <(tracked 'allocator/*.pyi' 'device/*.pyi' 'delegates/*.pyi' 'etarena/*.pyi')

# Modules whose hand-written stub is compared with what the compiler made.
compiled=()
for stub in "${stubs[@]}"; do
    [ -f "${stub%.pyi}.pyx" ] || continue
    module=${stub%.pyi}
    module=${module#etarena/}
    compiled+=("etarena.${module//\//.}")
done

check_stubs() {
    local libraries
    [ ${#compiled[@]} -ne 0 ] || return 0
    # The runtime's modules find libexecutorch.so because etarena loads it first; stubtest imports them directly.
    libraries=$(python -c 'import importlib.util as u; print(u.find_spec("executorch").submodule_search_locations[0])')/lib
    LD_LIBRARY_PATH=$libraries MYPYPATH=build/cimport python -m mypy.stubtest --concise --ignore-missing-stub \
        --mypy-config-file pyproject.toml "${compiled[@]}"
}

# Types take as long as all the rest: they are checked beside it.
check_types() {
    check "mypy" python -m mypy --no-error-summary
    check "stubtest" check_stubs
    [ ${#failed[@]} -eq 0 ]
}
found=$(mktemp)
trap 'rm -f "$found"' EXIT
check_types >"$found" 2>&1 &
types=$!

check "ruff check" ruff check --quiet .
check "ruff format" ruff format --quiet --check .
[ ${#cython[@]} -eq 0 ] || check "cython-lint" cython-lint "${cython[@]}"
[ ${#native[@]} -eq 0 ] || check "clang-format" clang-format --dry-run -Werror "${native[@]}"
check "codespell" codespell
check "shellcheck" shellcheck "${shell[@]}"
wait "$types" || failed+=("types")
cat "$found"

[ ${#failed[@]} -eq 0 ] || { printf 'lint failed: %s\n' "${failed[*]}" >&2; exit 1; }
