#!/usr/bin/env bash
# Builds the sdist, the wheel from that sdist, looks into both, and runs a model from the installed wheel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$PWD/.venv/bin/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source scripts/compiler_cache.sh

"$python" -m build --no-isolation --outdir "$work" . >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$python" -m scripts.check_wheel "$work"/*.whl "$PWD"
"$python" -m pip install --quiet --no-deps --no-index --target "$work/site" "$work"/*.whl
cp scripts/smoke.py "$work"
cd "$work"
PYTHONPATH="$work/site" "$python" smoke.py "$work/site"
