"""Layouts of XNNPACK's scratch that no model of a test has: random ones, and those at the limits of what is kept."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_layouts_are_sound_for_all_sizes_and_at_their_limits(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    assert compiler, "a C++ compiler built these modules"
    native, program = ROOT / "delegates" / "xnnpack" / "native", tmp_path / "layout_stress"
    sources = [ROOT / "tests" / "native" / "layout_stress.cpp", native / "layout.cpp", native / "packed_plan.cpp"]
    includes = [f"-I{native}", f"-I{ROOT / 'allocator' / 'native'}"]
    subprocess.run([compiler, "-std=c++17", "-O1", *includes, *map(str, sources), "-o", str(program)], check=True)
    done = subprocess.run([str(program), "1000"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "shapes replayed" in done.stdout
