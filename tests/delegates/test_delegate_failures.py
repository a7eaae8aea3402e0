"""Python delegates that fail, lie, keep what is not theirs, or meddle with the method that runs them."""

import gc
import threading
import traceback
import weakref

import numpy as np
import pytest
import torch
from executorch.exir import to_edge_transform_and_lower

import etarena
from etarena.quiet import quiet

from ..helpers.backends import SINE, Interleaved, OperatorPartitioner, TorchDelegate

BACKEND = "FailuresOfTheTests"
N = torch.export.Dim.DYNAMIC


class Oops(Exception):
    pass


@pytest.fixture(scope="module")
def program():
    partitioner = OperatorPartitioner(BACKEND, SINE)
    exported = etarena.export(
        Interleaved(), (torch.randn(6, 50),), dynamic_shapes={"x": {0: N}}, partitioners=[partitioner]
    )
    return exported.buffer


@pytest.fixture(scope="module")
def stock():
    with quiet():
        rows = torch.export.Dim("rows", min=1, max=64)
        captured = torch.export.export(Interleaved(), (torch.randn(6, 50),), dynamic_shapes={"x": {0: rows}})
        lowered = to_edge_transform_and_lower(captured, partitioner=[OperatorPartitioner(BACKEND, SINE)])
        return lowered.to_executorch().buffer


@pytest.fixture
def use():
    """Register a class for one test, in place of the one before."""
    current = []

    def register(what):
        if current:
            etarena.unregister_delegate(current.pop())
        etarena.register_delegate(BACKEND, what)
        current.append(BACKEND)

    yield register
    if current:
        etarena.unregister_delegate(BACKEND)


def load(program, **options):
    return etarena.load(program, etarena.Arena(1 << 32, **options)).method()


def assert_right(method, rows=6):
    x = torch.randn(rows, 50)
    method.arena.scribble()
    torch.testing.assert_close(method.execute([x])[0], Interleaved()(x), rtol=1e-4, atol=1e-4)


def failing(step, times, error=None):
    """A delegate that raises in one of its methods as often as `times` says."""
    left = [times]

    def oops(self, *args):
        if left[0] > 0:
            left[0] -= 1
            raise (error or Oops)(f"no {step} today")
        if step == "scratch_bytes":
            return 64
        if step == "output_shapes":
            return [args[0][0]]
        return () if step == "requirements" else getattr(TorchDelegate, step)(self, *args)

    return type("Failing", (TorchDelegate,), {step: oops})


@pytest.mark.parametrize("kind", ["program", "stock"])
@pytest.mark.parametrize("step", ["init", "scratch_bytes", "output_shapes", "requirements", "execute"])
def test_exceptions_come_through_and_the_method_works_again(step, kind, use, request):
    file = request.getfixturevalue(kind)
    use(failing(step, 1))
    with pytest.raises(etarena.RuntimeFailure, match=rf"{BACKEND}.*{step}.*no {step} today") as caught:
        load(file).execute([torch.zeros(2, 50)])
    assert isinstance(caught.value.__cause__, Oops)
    lines = "".join(traceback.format_exception(caught.value))
    assert "test_delegate_failures.py" in lines
    assert "in oops" in lines
    use(failing(step, 0))
    method = load(file)
    assert_right(method)
    use(failing(step, 1))
    with pytest.raises(etarena.RuntimeFailure):
        method.trim()   # it loads itself anew
        method.execute([torch.zeros(2, 50)])
    for rows in (3, 6):
        assert_right(method, rows)


def test_a_failure_says_where(program, use):
    use(failing("execute", 1))
    with pytest.raises(etarena.RuntimeFailure, match="at instruction 0: execute: Oops: no execute today") as caught:
        load(program).execute([torch.zeros(2, 50)])
    assert (caught.value.instruction, caught.value.operator) == (0, BACKEND)
    assert caught.value.code_name == "Internal"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("step", ["init", "scratch_bytes", "execute"])
def test_what_is_no_error_comes_through_as_itself(step, error, program, use):
    use(failing(step, 1, error))
    with pytest.raises(error, match=f"no {step} today"):
        load(program).execute([torch.zeros(2, 50)])
    assert_right(load(program))


def test_close_cannot_fail_anybody(program, use, monkeypatch):
    use(failing("close", 3))
    method = load(program)
    assert_right(method)
    shown = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: shown.append(str(unraisable.exc_value)))
    del method
    gc.collect()
    assert shown == ["no close today"] * 3


def test_every_delegate_is_closed_once(program, use):
    log = []

    class Counts(TorchDelegate):
        def init(self, blob, specs):
            super().init(blob, specs)
            log.append(("init", id(self)))

        def close(self):
            log.append(("close", id(self)))

    use(Counts)
    method = load(program)
    assert_right(method)
    method.trim()
    assert sorted(kind for kind, _ in log) == ["close"] * 3 + ["init"] * 6
    del method
    gc.collect()
    assert len(log) == 12


@pytest.mark.parametrize("answer", [-1, 1 << 70, 1 << 50, 1.5, None, "many", True])
def test_nonsense_bytes(answer, program, use):
    use(type("Lies", (TorchDelegate,), {"scratch_bytes": lambda self, shapes: answer}))
    method = load(program)
    with pytest.raises(etarena.RuntimeFailure, match="scratch"):
        method.execute([torch.zeros(2, 50)])
    with pytest.raises(etarena.RuntimeFailure, match="scratch"):
        method.plan_for([(2, 50)])


def test_more_scratch_than_the_arena_has(program, use):
    use(type("Wants", (TorchDelegate,), {"scratch_bytes": lambda self, shapes: 1 << 40}))
    with pytest.raises(etarena.ArenaFullError):
        load(program).execute([torch.zeros(2, 50)])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([(3, 50)], "output_shapes gives argument 1 the shape \\[3, 50\\], in the model it has \\[2, 50\\]"),
        ([(2, 50, 1)], "rank"),
        ([(2, 50)] * 3, "3 shapes for 2 tensors"),
        ([(2, -50)], "size -50"),
        (None, "NoneType"),
        (7, "int"),
    ],
)
def test_wrong_output_shapes(answer, text, program, use):
    use(type("Lies", (TorchDelegate,), {"output_shapes": lambda self, shapes: answer}))
    with pytest.raises(etarena.RuntimeFailure, match=text):
        load(program).execute([torch.zeros(2, 50)])


def test_an_output_beyond_the_upper_bound_of_a_stock_file(stock, use):
    use(type("Lies", (TorchDelegate,), {"output_shapes": lambda self, shapes: [(1000, 50)]}))
    method = load(stock)
    with pytest.raises(etarena.RuntimeFailure, match="argument 1 cannot have the shape"):
        method.execute([torch.zeros(2, 50)])


@pytest.mark.parametrize("kind", ["program", "stock"])
@pytest.mark.parametrize("which", ["argument 0", "argument 1", "its scratch"])
def test_views_that_are_kept(which, kind, use, request):
    kept = []

    class Keeps(TorchDelegate):
        def scratch_bytes(self, shapes):
            return 100

        def execute(self, args, scratch):
            super().execute(args, scratch)
            if not kept:
                kept.append(np.asarray(scratch if which == "its scratch" else args[int(which[-1])]))

    use(Keeps)
    method = load(request.getfixturevalue(kind))
    with pytest.raises(etarena.RuntimeFailure, match=f"still holds a view of {which}"):
        method.execute([torch.ones(3, 50)])
    gc.collect()
    assert len(bytes(kept[0])) in (100, 600)   # still mapped, whatever is in it
    assert_right(method)


def test_arguments_are_over_after_the_call(program, use):
    kept = []

    class Keeps(TorchDelegate):
        def execute(self, args, scratch):
            super().execute(args, scratch)
            kept.append((args[0], scratch))

    use(Keeps)
    assert_right(load(program))
    argument, scratch = kept[0]
    with pytest.raises(etarena.Error, match="closed"):
        np.asarray(argument).sum()
    with pytest.raises(ValueError, match="released"):
        bytes(scratch)


def test_a_failed_call_holds_no_views(program, use):
    class Raises(TorchDelegate):
        def execute(self, args, scratch):
            view = np.asarray(args[0])   # noqa: F841 - the traceback's frame holds it
            raise Oops("with a view in hand")

    use(Raises)
    method = load(program)
    with pytest.raises(etarena.RuntimeFailure, match="with a view in hand") as caught:
        method.execute([torch.zeros(2, 50)])
    assert isinstance(caught.value.__cause__, Oops)


def test_a_delegate_cannot_use_the_arena_that_is_running_it(program, stock, use):
    methods = []

    class Recurses(TorchDelegate):
        def execute(self, args, scratch):
            methods[0].execute([torch.zeros(2, 50)])

    for file in (program, stock):
        use(Recurses)
        methods[:] = [load(file)]
        with pytest.raises(etarena.RuntimeFailure, match="delegate") as caught:
            methods[0].execute([torch.zeros(2, 50)])
        assert isinstance(caught.value.__cause__, etarena.Error)
        assert "thread" in str(caught.value.__cause__)
        use(TorchDelegate)
        methods[0].trim()
        assert_right(methods[0])


def test_a_delegate_may_use_a_method_on_another_arena(program, use):
    inner = []

    class Calls(TorchDelegate):
        def execute(self, args, scratch):
            super().execute(args, scratch)
            if inner:
                x = torch.randn(4, 50)
                (result,) = inner[0].execute([x])
                torch.testing.assert_close(result, torch.cumsum(x, -1))

    class Sum(torch.nn.Module):
        def forward(self, x):
            return torch.cumsum(x, -1)

    use(Calls)
    method = load(program)
    other = etarena.export(Sum(), (torch.randn(6, 50),), dynamic_shapes={"x": {0: N}})
    inner.append(etarena.load(other.buffer, etarena.Arena(1 << 30)).method())
    for rows in (2, 5):
        assert_right(method, rows)


@pytest.mark.parametrize("meddle", ["trim", "plan_for", "arena.trim", "arena.scribble"])
def test_meddling_with_the_running_method_is_refused(meddle, program, use):
    methods = []

    class Meddles(TorchDelegate):
        def execute(self, args, scratch):
            target = methods[0]
            for name in meddle.split("."):
                target = getattr(target, name)
            target([(3, 50)]) if meddle == "plan_for" else target()

    use(Meddles)
    methods.append(load(program))
    with pytest.raises(etarena.RuntimeFailure, match="thread") as caught:
        methods[0].execute([torch.zeros(2, 50)])
    assert isinstance(caught.value.__cause__, etarena.Error)


def test_a_delegate_may_drop_the_last_reference_to_its_method(program, use):
    methods = []

    class Drops(TorchDelegate):
        def execute(self, args, scratch):
            super().execute(args, scratch)
            methods.clear()
            gc.collect()

    use(Drops)
    methods.append(load(program))
    x = torch.randn(2, 50)
    (result,) = methods[0].execute([x])
    torch.testing.assert_close(result, Interleaved()(x), rtol=1e-4, atol=1e-4)


def test_unregistering_inside_execute(program, use):
    class Leaves(TorchDelegate):
        def execute(self, args, scratch):
            super().execute(args, scratch)
            if not left:
                left.append(etarena.unregister_delegate(BACKEND))

    left: list[None] = []
    use(Leaves)
    method = load(program)
    del Leaves
    gc.collect()
    for rows in (2, 7):
        assert_right(method, rows)
    with pytest.raises(etarena.RuntimeFailure, match=f"nothing is registered for the backend '{BACKEND}'"):
        method.trim()
    assert_right(method, 5)   # it keeps what it had
    etarena.register_delegate(BACKEND, TorchDelegate)
    method.trim()
    assert_right(method, 5)


def test_reload_trim_and_destroy_from_other_threads(program, use):
    started, go_on = threading.Event(), threading.Event()

    class Waits(TorchDelegate):
        def execute(self, args, scratch):
            super().execute(args, scratch)
            started.set()
            go_on.wait(10)

    use(Waits)
    method, other = load(program), load(program)
    x = torch.randn(3, 50)
    results = []
    runner = threading.Thread(target=lambda: results.append(method.execute([x])[0]))
    runner.start()
    assert started.wait(60)
    trimmer = threading.Thread(target=method.trim)
    trimmer.start()
    del other
    gc.collect()
    etarena.unregister_delegate(BACKEND)
    etarena.register_delegate(BACKEND, TorchDelegate)
    go_on.set()
    runner.join(60)
    trimmer.join(60)
    torch.testing.assert_close(results[0], Interleaved()(x), rtol=1e-4, atol=1e-4)
    assert_right(method)


def test_many_failures_leave_nothing_behind(program, use):
    alive = weakref.WeakSet()

    class Sometimes(TorchDelegate):
        count = 0

        def init(self, blob, specs):
            super().init(blob, specs)
            alive.add(self)

        def scratch_bytes(self, shapes):
            return 4096 * (1 + Sometimes.count % 5)

        def execute(self, args, scratch):
            Sometimes.count += 1
            if Sometimes.count % 4 == 0:
                raise Oops("every fourth")
            scratch[:] = b"\xff" * len(scratch)
            super().execute(args, scratch)

    use(Sometimes)
    method = load(program, poison=True)
    failed = 0
    for turn in range(60):
        x = torch.randn(1 + turn % 5, 50)
        try:
            (result,) = method.execute([x])
        except etarena.RuntimeFailure as error:
            assert isinstance(error.__cause__, Oops)
            failed += 1
        else:
            torch.testing.assert_close(result, Interleaved()(x), rtol=1e-4, atol=1e-4)
    assert 10 < failed < 50
    assert len(alive) == 3
    del method
    gc.collect()
    assert not list(alive)
