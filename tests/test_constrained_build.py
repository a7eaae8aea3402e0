"""The build without run-time planning: what it has, what it says of the rest, and how its native module is made."""

import ast
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from setuptools import Distribution

import etarena
from bench.size import LIMIT, build_wheel, changed_libraries, install, python_in
from etarena import allocator
from etarena.allocator import errors
from scripts.build_backend import RUN_TIME_REQUIRES, get_requires_for_build_wheel
from scripts.build_commands import BuildPlanningModule
from scripts.constrained_build import FOLDER, JOINED, VARIABLE, is_left_out, with_run_time_planning
from scripts.join_modules import join_modules, public_names, stand_in

ROOT = Path(__file__).parent.parent
LAYERS = ("allocator", "device", "delegates", "etarena")
# What holds or runs a program; none of it may be loaded by who plans ahead of time.
RUN_TIME = (
    "allocator.arena",
    "allocator.block",
    "allocator.events",
    "allocator.growing",
    "allocator.heap",
    "allocator.observe",
    "allocator.offset_heap",
    "allocator.oriented",
    "allocator.pages",
    "delegates.contract",
    "delegates.foreign",
    "delegates.vulkan",
    "device.etensor",
    "device.registry",
    "device.vulkan",
    "_runtime",
    "_method",
    "loaded",
    "program",
    "state.",
    "stock_method",
)
PLAN = "assert etarena.allocator.plan_offsets([64, 64, 100], [0, 1, 0], [1, 2, 2]).peak == 164\n"


def run_time_modules(names: list[str]) -> list[str]:
    return [name for name in names if f"{name.removeprefix('etarena.')}.".startswith(RUN_TIME)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the build without run-time planning is installed alone."""
    folder = tmp_path_factory.mktemp("constrained")
    collected = ROOT / FOLDER / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "etarena"
    collected.mkdir(parents=True, exist_ok=True)
    (collected / "gone.py").write_text("an earlier build had this module\n")
    install(build_wheel(folder), folder / "site")
    return folder / "site"


def test_the_native_code_is_one_small_module(site: Path) -> None:
    (module,) = site.rglob("*.so")
    assert module.relative_to(site).as_posix().startswith("etarena/allocator/_planning.")
    assert module.stat().st_size <= LIMIT == 150 * 1024


def test_the_wheel_has_no_source_and_no_data_of_run_time(site: Path) -> None:
    suffixes = {path.suffix for path in (site / "etarena").rglob("*") if path.is_file()} - {".pyc"}
    assert suffixes == {".py", ".pyi", ".so", ".fbs", ".typed", ".html", ".css", ".js"}
    assert not [path for path in (site / "etarena").rglob("*.pyi") if not path.with_suffix(".py").exists()]
    modules = [".".join(path.relative_to(site).with_suffix("").parts) for path in (site / "etarena").rglob("*.py")]
    assert len(modules) > 50
    assert not run_time_modules(modules)
    assert "etarena.gone" not in modules


def test_planning_ahead_of_time_works_and_loads_nothing_of_run_time(site: Path) -> None:
    code = (
        "import etarena, sys\n" + PLAN + "from etarena.allocator import SizeProgram, plan_exact, verify\n"
        "plan = plan_exact([64, 64], [0, 1], [1, 2], capacity=64)\n"
        "assert verify(plan, [64, 64], [0, 1], [1, 2]) is None and plan.offsets == [0, 0]\n"
        "assert SizeProgram(1, [(0, 3, 0, 0), (3, 0, 1, 0)]).evaluate([5]) == [5, 3, 15]\n"
        "print([name for name in sys.modules if name.startswith('etarena')])"
    )
    names = ast.literal_eval(python_in(site, code))
    assert "etarena.allocator._planning" in names
    assert not run_time_modules(names)


def test_what_needs_run_time_says_so(site: Path) -> None:
    code = (
        "import etarena, etarena.allocator\n"
        "answers = {}\n"
        f"for owner, names in ((etarena, {etarena.__all__}), (etarena.allocator, {allocator.__all__})):\n"
        "    for name in set(names) - set(owner.__all__):\n"
        "        try:\n"
        "            getattr(owner, name)\n"
        "        except etarena.NotBuiltError as error:\n"
        "            answers[f'{owner.__name__}.{name}'] = str(error)\n"
        "try:\n"
        "    from etarena import load\n"
        "except ImportError as error:\n"
        "    answers['etarena.load'] = str(error)\n"
        "print([answers, etarena.__all__])"
    )
    answers, names = ast.literal_eval(python_in(site, code))
    assert set(etarena.__all__) - set(names) == {
        name.removeprefix("etarena.") for name in answers if not name.startswith("etarena.allocator.")
    }
    wanted = {
        "Arena",
        "Delegate",
        "ETensor",
        "Method",
        "Program",
        "VulkanPartitioner",
        "load",
        "vulkan",
        "allocator.Arena",
    }
    assert {f"etarena.{name}" for name in wanted} <= set(answers)
    assert {"Device", "Error", "allocator", "explain", "export"} <= set(names)
    for name, message in answers.items():
        assert message.startswith(f"{name} needs run-time memory planning")
        assert "pip install ." in message


def test_commands_that_run_a_program_say_so(site: Path) -> None:
    code = "import sys; sys.argv = ['etarena', 'replay', 'trace']; from etarena.cli.group import main; main()"
    with pytest.raises(errors.Error, match=r"ended with 1:\nerror: etarena replay needs run-time memory planning"):
        python_in(site, code)


def test_exporting_and_propagating_load_nothing_of_run_time(site: Path, tmp_path: Path) -> None:
    code = (
        "import logging, sys\nlogging.disable(logging.WARNING)\n"
        "import etarena.static, torch\n"
        "from executorch.runtime import Runtime\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())\n"
        "rows = torch.ones(3, 4)\n"
        "assert etarena.propagate(model, (rows,)).values\n"
        "static = etarena.export(model, (rows,), memory='static')\n"
        "method = Runtime.get().load_program(static.buffer).load_method('forward')\n"
        "torch.testing.assert_close(method.execute([rows])[0], model(rows))\n"
        "assert b'etarena' not in static.buffer.lower()\n"
        "exported = etarena.export(model, (rows,), dynamic_shapes=({0: torch.export.Dim('rows')},))\n"
        "exported.save(sys.argv[1])\n"
        "print([name for name in sys.modules if name.startswith('etarena')])"
    )
    names = ast.literal_eval(python_in(site, code, str(tmp_path / "model.pte")).splitlines()[-1])
    assert {"etarena.exporter", "etarena.propagation.propagator", "etarena.static.planning_pass"} <= set(names)
    assert not run_time_modules(names)
    # The whole build runs what the other one has exported.
    import torch

    method = etarena.load(tmp_path / "model.pte").method("forward")
    assert method.execute([torch.ones(5, 4)])[0].shape == (5, 8)


def test_the_libraries_of_the_stock_runtime_are_as_published() -> None:
    changed, count = changed_libraries()
    assert not changed
    assert count >= 5


@pytest.mark.parametrize(
    ("code", "module"), [(PLAN, "etarena.allocator.planner"), ("import etarena.static\n", "etarena.static")]
)
def test_planning_ahead_loads_nothing_of_run_time_in_the_whole_build_either(code: str, module: str) -> None:
    code = "import etarena, sys\n" + code + "print([name for name in sys.modules if name.startswith('etarena')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    names = ast.literal_eval(done.stdout)
    assert module in names
    assert not run_time_modules(names)


def imports_at_the_top(path: Path) -> set[str]:
    """Modules of etarena that a file imports when it is itself imported, from the root of the repository."""
    folder = list(path.relative_to(ROOT).parent.parts)
    package = folder if folder[0] == "etarena" else ["etarena", *folder]
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            found |= {".".join(base), *(".".join([*base, alias.name]) for alias in node.names)}
    return found


def test_no_file_that_is_kept_imports_one_that_is_not() -> None:
    files = {path.relative_to(ROOT).as_posix(): path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}
    left_out = {
        ".".join(parts if (parts := Path(name).with_suffix("").parts)[0] == "etarena" else ["etarena", *parts])
        for name in files
        if is_left_out(name)
    }
    assert "etarena.program" in left_out
    wrong = [
        f"{name} imports {module}"
        for name, path in files.items()
        if not is_left_out(name)
        for module in sorted(imports_at_the_top(path) & left_out)
    ]
    assert not wrong


def source_of(package: str, home: str) -> Path:
    """The file of a module that is named from a package, such as .device.device from etarena."""
    parts = home.strip(".").split(".")
    base = ROOT if package == "etarena" and parts[0] in LAYERS else ROOT / package
    stem = base.joinpath(*parts)
    candidates = (stem.with_suffix(".py"), stem.with_suffix(".pyx"), stem / "__init__.py")
    return next(path for path in candidates if path.exists())


@pytest.mark.parametrize(("package", "module"), [("etarena", etarena), ("allocator", allocator)])
def test_the_names_of_the_small_build_are_those_whose_modules_it_has(package: str, module: Any) -> None:
    homes = {home: source_of(package, home) for home in set(module._HOME.values())}
    has = {
        home
        for home, path in homes.items()
        if path.stem in JOINED or (path.suffix == ".py" and not is_left_out(path.relative_to(ROOT).as_posix()))
    }
    assert set(module._AHEAD_OF_TIME) == has


@pytest.mark.parametrize(("value", "expected"), [(None, True), ("1", True), ("0", False)])
def test_the_variable_chooses(value: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    assert with_run_time_planning() is expected
    assert get_requires_for_build_wheel() == (RUN_TIME_REQUIRES if expected else [])


def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    with pytest.raises(SystemExit, match="ETARENA_RUNTIME_PLANNING is 'off': expected 1"):
        with_run_time_planning()


def test_it_is_not_built_in_place() -> None:
    command = BuildPlanningModule(Distribution({"name": "etarena"}))
    command.inplace = True
    with pytest.raises(SystemExit, match="pip install"):
        command.run()


FIRST = '"""First."""\n\nfrom libc.stdint cimport int64_t\n\n__all__ = ["A"]\n\n\ncdef class A:\n    pass\n'
SECOND = (
    '"""Second."""\n\nfrom .first cimport (\n    A,\n)\n\nfrom .errors import Error\nfrom .first import A\n\n'
    '__all__ = [\n    "B",\n    "make",\n]\n\n\ncdef class B:\n    pass\n\n\ndef make():\n    return A()\n'
)


def test_modules_are_joined_without_their_imports_of_each_other(tmp_path: Path) -> None:
    (tmp_path / "first.pyx").write_text(FIRST)
    (tmp_path / "first.pxd").write_text("cdef class A:\n    cdef int n\n")
    (tmp_path / "second.pyx").write_text(SECOND)
    join_modules(tmp_path, ("first", "second"), tmp_path / "out" / "both.pyx")
    joined = (tmp_path / "out" / "both.pyx").read_text()
    assert "first" not in joined
    assert "__all__" not in joined
    assert joined.index("cdef class A") < joined.index("from .errors import Error") < joined.index("def make")
    assert (tmp_path / "out" / "both.pxd").read_text() == "cdef class A:\n    cdef int n\n"
    assert public_names(SECOND) == ["B", "make"]
    text = stand_in(tmp_path / "second.pyx", "both")
    assert "from .both import B, make\n" in text
    compile(text, "second.py", "exec")


def test_modules_with_a_name_in_common_are_not_joined(tmp_path: Path) -> None:
    (tmp_path / "first.pyx").write_text(FIRST)
    (tmp_path / "second.pyx").write_text(SECOND.replace("def make()", "cdef inline object A()"))
    with pytest.raises(SystemExit, match="A is defined in two of them"):
        join_modules(tmp_path, ("first", "second"), tmp_path / "both.pyx")
    assert not (tmp_path / "both.pyx").exists()
