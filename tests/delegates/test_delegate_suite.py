"""The conformance suite of delegates: sound ones pass, and each broken one fails the check meant for it."""

import ctypes
import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

import etarena
from etarena.testing import DelegateCase, DelegateSuite

from ..helpers.backends import SINE, OperatorPartitioner
from ..helpers.broken_delegates import BACKEND, BROKEN, AsksForTooLittle, NeedsSomething, Sine, Sound
from ..helpers.function_tables import table

SOUND = DelegateCase(
    delegate=Sound,
    backend=BACKEND,
    module=Sine(),
    inputs=lambda size: [torch.linspace(-3, 3, 10 * size).reshape(size, 10)],
    dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}},
    partitioners=[OperatorPartitioner(BACKEND, SINE)],
    bounded_shapes={"x": {0: torch.export.Dim("rows", min=1, max=64)}},
)


@pytest.fixture(scope="module", autouse=True)
def quick_collections():
    """The suite collects garbage often, and torch alone is a million objects."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def array(argument):
    kind = ctypes.c_float * (argument.nbytes // 4)
    return np.frombuffer(kind.from_address(argument.data), np.float32) if argument.nbytes else np.empty(0, np.float32)


def sine_table():
    """The same as `Sound` behind C functions."""

    def execute(context, handle, arguments, count, scratch, nbytes, error):
        x, out = array(arguments[0]), array(arguments[1])
        if nbytes:
            ctypes.memmove(scratch, np.sin(x).tobytes(), nbytes)
            ctypes.memmove(out.ctypes.data, scratch, nbytes)
        return 0

    def scratch_bytes(context, handle, arguments, count, nbytes, error):
        nbytes[0] = arguments[0].nbytes
        return 0

    def output_sizes(context, handle, arguments, count, sizes, error):
        for i in range(4):
            sizes[i] = arguments[0].sizes[i % 2]
        return 0

    return table(execute, scratch_bytes=scratch_bytes, output_sizes=output_sizes)


class TestSound(DelegateSuite):
    @pytest.fixture
    def case(self):
        return SOUND


class TestTable(DelegateSuite):
    made = sine_table()

    @pytest.fixture
    def case(self):
        return replace(SOUND, delegate=self.made, program=SOUND.file, stock=SOUND.stock_file)


class Plain(DelegateSuite):
    pass


FAILURES = [(step, at) for step in ("init", "scratch_bytes", "execute") for at in (0, 1)]
CHECKS = [
    (name, arguments)
    for name in vars(DelegateSuite)
    if name.startswith("test_")
    for arguments in (FAILURES if name == "test_failures" else [()])
]


def fails(check: str, arguments: tuple, case: DelegateCase) -> bool:
    try:
        getattr(Plain(), check)(case, *arguments)
    except (Exception, pytest.fail.Exception):
        return True
    finally:
        gc.collect()
    return False


@pytest.mark.parametrize(
    ("broken", "check", "arguments", "others"), BROKEN, ids=[entry[0].__name__ for entry in BROKEN]
)
def test_a_broken_delegate_fails_its_check(broken, check: str, arguments: tuple, others: set[str]) -> None:
    case = replace(SOUND, delegate=broken, program=SOUND.file, stock=SOUND.stock_file)
    unharmed = [entry for entry in CHECKS if entry[0] not in {check, *others}]
    assert [entry for entry in unharmed if fails(*entry, case)] == []
    assert fails(check, arguments, case)


def test_every_check_has_a_delegate_that_fails_it() -> None:
    assert {check for _, check, *_ in BROKEN} == {name for name, _ in CHECKS}


def test_the_suite_asks_for_its_fixture() -> None:
    with pytest.raises(NotImplementedError, match="give a fixture 'case'"):
        DelegateSuite.case.__wrapped__(Plain())


def test_what_the_author_registered_comes_back() -> None:
    etarena.register_delegate(BACKEND, Sound)
    with SOUND.registered():
        pass
    etarena.unregister_delegate(BACKEND)
    with SOUND.registered():
        pass
    with pytest.raises(etarena.Error, match="no delegate is registered"):
        etarena.unregister_delegate(BACKEND)


def test_a_case_without_bounds_has_no_stock_file() -> None:
    case = replace(SOUND, bounded_shapes=None, program=SOUND.file)
    assert case.stock_file is None
    assert case.file == SOUND.file
    Plain().test_stock_files(case)


def test_a_model_without_the_delegate_is_noticed() -> None:
    case = replace(SOUND, partitioners=())
    with pytest.raises(AssertionError, match="no delegate of this backend is in the model"):
        Plain().test_every_object_is_closed(case)


def test_a_crash_says_where_it_was() -> None:
    case = replace(SOUND, delegate=AsksForTooLittle, program=SOUND.file)
    with pytest.raises(
        AssertionError, match=r"size 6: memory behind the scratch was touched(.|\n)*broken_delegates.py"
    ):
        Plain().test_scratch_is_sufficient(case)


def test_checks_can_be_switched_off() -> None:
    class Without(DelegateSuite):
        allows_empty = False
        supports_fork = False

    Without().test_empty(replace(SOUND, delegate=NeedsSomething, program=SOUND.file))
    Without().test_scratch_is_sufficient(replace(SOUND, delegate=AsksForTooLittle, program=SOUND.file))
