"""Programs with values on a device: handles in and out, copies counted, and memory that the CPU never looks into."""

import gc
import threading
import weakref

import numpy
import pytest
import torch
from torch.export import Dim

import etarena
from etarena.allocator import plan_offsets
from etarena.allocator.plan import Kind
from etarena.propagation.sections import SectionEstimator
from examples.python_delegate import NumpySoftmaxPartitioner
from tests.helpers.placed_backend import PlacedDelegate, PlacedPartitioner
from tests.helpers.simulated_device import SimulatedDevice


class SimulatedGpu(SimulatedDevice):
    device_type = "vulkan"


@pytest.fixture
def gpu():
    allocator = etarena.register_device_allocator(SimulatedGpu())

    class OnGpu(PlacedDelegate):
        pass

    OnGpu.allocator = allocator
    etarena.register_delegate("PlacedBackend", OnGpu)
    yield allocator
    etarena.unregister_delegate("PlacedBackend")
    etarena.unregister_device_allocator(allocator)


class Mixed(torch.nn.Module):
    def forward(self, x, y):
        a = x * y
        b = a.relu()
        return b * a, a, b.sum()


class Chain(torch.nn.Module):
    """Three delegates on the device with a CPU operator between them, so that buffers on the device come and go."""

    def forward(self, x):
        a = (x * x).relu()
        b = (a * x).relu()
        return (b * b) * a


def method_of(module, inputs=2, arena=None, partitioners=None, **options):
    n = Dim("n")
    exported = etarena.export(
        module.eval(),
        tuple(torch.randn(3, 4) for _ in range(inputs)),
        dynamic_shapes=tuple({0: n} for _ in range(inputs)),
        partitioners=partitioners or [PlacedPartitioner("vulkan:0", "aten.mul")],
        **options,
    )
    return etarena.load(exported.buffer, arena=arena or etarena.Arena()).method("forward")


@pytest.mark.parametrize("rows", [3, 1, 40, 2])
def test_cpu_tensors_in_and_out(gpu, rows):
    method = method_of(Mixed())
    for _ in range(3):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        for result, expected in zip(method.execute([x, y]), Mixed()(x, y), strict=True):
            torch.testing.assert_close(result, expected)
    assert sorted(copy.nbytes for copy in method.last_run.copies) == [rows * 16] * 5
    causes = [copy.cause for copy in method.last_run.copies]
    assert "value 'x' goes from cpu to vulkan:0" in causes
    assert sum("goes from vulkan:0 to cpu" in cause for cause in causes) == 2


def test_handles_in_and_out_copy_nothing(gpu):
    class Product(torch.nn.Module):
        def forward(self, x, y):
            return x * y

    method = method_of(Product(), input_devices={"x": "vulkan", "y": "vulkan"}, output_devices="vulkan", copies="error")
    x, y = torch.randn(5, 4), torch.randn(5, 4)
    on_device = [etarena.ETensor(value).to("vulkan") for value in (x, y)]
    with etarena.zero_copy():
        (result,) = method.execute(on_device)
        (again,) = method.execute([result, on_device[0]])  # results are inputs like any other
    assert result.device == etarena.Device("vulkan")
    assert method.last_run.copies == ()
    torch.testing.assert_close(result.cpu().torch(), x * y)
    torch.testing.assert_close(again.cpu().torch(), x * y * x)
    with pytest.raises(etarena.DeviceError):
        numpy.asarray(result)


def test_results_go_into_the_callers_tensor(gpu):
    method = method_of(Mixed(), input_devices={"x": "vulkan", "y": "vulkan"}, output_devices=["vulkan", None, None])
    x, y = torch.randn(6, 4), torch.randn(6, 4)
    on_device = [etarena.ETensor(value).to("vulkan") for value in (x, y)]
    given = etarena.ETensor.empty("float32", (6, 4), "vulkan")
    results = method.execute(on_device, outputs=[given, None, None])
    assert results[0] is given
    torch.testing.assert_close(given.cpu().torch(), Mixed()(x, y)[0])
    for wrong, error, text in [
        (torch.empty(6, 4), etarena.InputTypeError, "needs an etarena.ETensor there"),
        (etarena.ETensor(torch.empty(6, 4)), etarena.DeviceError, "is on cpu, the output on vulkan:0"),
        (etarena.ETensor.empty("float64", (6, 4), "vulkan"), etarena.InputTypeError, "has dtype float64"),
        (etarena.ETensor.empty("float32", (4, 6), "vulkan"), etarena.InputError, r"has shape \[4, 6\]"),
        (on_device[0], etarena.InputError, "shares memory with an input"),
    ]:
        with pytest.raises(error, match=text):
            method.execute(on_device, outputs=[wrong, None, None])
        torch.testing.assert_close(method.execute(on_device)[1], x * y)


def test_wrong_inputs_are_named_and_the_method_works_again(gpu):
    method = method_of(Mixed(), input_devices={"x": "vulkan"})
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    good = etarena.ETensor(x).to("vulkan")
    closed = etarena.ETensor(x).to("vulkan")
    closed.close()
    for wrong, error, text in [
        (x, etarena.InputTypeError, "input 'x' is on vulkan:0: pass an etarena.ETensor there"),
        (etarena.ETensor(x), etarena.DeviceError, r"is on cpu, the model wants it on vulkan:0: call .to\('vulkan:0'\)"),
        (etarena.ETensor(x).to("vulkan:1"), etarena.DeviceError, "is on vulkan:1"),
        (etarena.ETensor(x.double()).to("vulkan"), etarena.InputTypeError, "has dtype float64"),
        (etarena.ETensor(x[0]).to("vulkan"), etarena.InputError, "of rank 1, expected rank 2"),
        (etarena.ETensor(torch.randn(3, 5)).to("vulkan"), etarena.ShapeError, "dimension 1 of input 'x' is 5"),
        (closed, etarena.DeviceError, "closed"),
    ]:
        with pytest.raises(error, match=text):
            method.execute([wrong, y])
        torch.testing.assert_close(method.execute([good, y])[1], x * y)
    with pytest.raises(etarena.DeviceError, match="input 'y'"):
        method.execute([good, good])


def test_copies_are_refused_under_zero_copy(gpu):
    method = method_of(Mixed())
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    with etarena.zero_copy(), pytest.raises(etarena.CopyRefusedError, match="value 'x' goes from cpu to vulkan:0"):
        method.execute([x, y])
    torch.testing.assert_close(method.execute([x, y])[1], x * y)


def test_device_memory_follows_the_input_and_is_planned(gpu):
    method = method_of(Chain(), inputs=1)
    section = method.section
    for rows in (100, 3, 50):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(method.execute([x])[0], Chain()(x))
        owned = [value for i, value in enumerate(section.values) if value.storage == i and value.device_type]
        owners = [value for value in owned if value.kind is Kind.ACTIVATION]
        plan = plan_offsets([rows * 16] * len(owners), [v.first for v in owners], [v.last for v in owners], 256)
        (figures,) = method.last_run.device_bytes
        assert figures.device == "vulkan:0"
        assert figures.peak == plan.peak < rows * 16 * len(owners) + 256 * len(owners)
        assert figures.lower_bound == plan.lower_bound
        estimator = SectionEstimator(section)
        predicted = estimator.memory(estimator.sizes_for([(rows, 4)])).regions
        assert [(one.device, one.peak) for one in predicted] == [
            ("cpu", method.last_run.arena_bytes),
            ("vulkan:0", figures.peak),
        ]


def test_methods_of_an_arena_share_device_memory(gpu):
    arena = etarena.Arena()
    first, second = method_of(Chain(), inputs=1, arena=arena), method_of(Mixed(), arena=arena)
    x, y = torch.randn(200, 4), torch.randn(200, 4)
    for rows in (10, 200, 30):
        torch.testing.assert_close(first.execute([x[:rows]])[0], Chain()(x[:rows]))
        torch.testing.assert_close(second.execute([x[:rows], y[:rows]])[1], x[:rows] * y[:rows])
        torch.testing.assert_close(first.execute([x[:rows]])[0], Chain()(x[:rows]))


def test_nothing_is_left_on_the_device(gpu):
    method = method_of(Mixed(), input_devices={"x": "vulkan", "y": "vulkan"}, output_devices="vulkan")
    x = torch.randn(8, 4)
    for _ in range(20):
        results = method.execute([etarena.ETensor(x).to("vulkan"), etarena.ETensor(x).to("vulkan")])
        torch.testing.assert_close(results[1].cpu().torch(), x * x)
    method.trim()
    torch.testing.assert_close(results[1].cpu().torch(), x * x)  # results outlive the method's own memory
    del results, method
    gc.collect()
    etarena.unregister_device_allocator(gpu)
    assert gpu.live == 0
    etarena.register_device_allocator(gpu)


def test_an_allocator_may_be_replaced_or_taken_away_while_a_method_holds_it(gpu):
    method = method_of(Mixed())
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    expected = x * y
    torch.testing.assert_close(method.execute([x, y])[1], expected)
    etarena.unregister_device_allocator(gpu)
    torch.testing.assert_close(method.execute([x, y])[1], expected)
    with pytest.raises(etarena.DeviceError, match="no allocator is registered for vulkan"):
        method_of(Mixed())
    etarena.register_device_allocator(gpu)
    method.trim()
    torch.testing.assert_close(method.execute([x, y])[1], expected)


class Keeper(etarena.Delegate):
    """Keeps a view of its input, and fails."""

    kept = None

    def execute(self, args, scratch):
        Keeper.kept = numpy.asarray(args[0])
        raise ValueError("it fails")


def test_a_view_that_outlives_a_failed_run_keeps_no_memory_of_the_device(gpu):
    class Softmax(torch.nn.Module):
        def forward(self, x, y):
            return x.softmax(-1) + y

    etarena.register_delegate("NumpySoftmax", Keeper)
    try:
        partitioners = [NumpySoftmaxPartitioner()]
        method = method_of(Softmax(), partitioners=partitioners, input_devices={"y": "vulkan"})
        x = torch.randn(3, 4)
        y = etarena.ETensor(torch.randn(3, 4)).to("vulkan")
        known = weakref.ref(y)
        with pytest.raises(etarena.RuntimeFailure, match="it fails"):
            method.execute([x, y])
        expected, x, y = x.clone(), None, None
        gc.collect()
        assert known() is None
        numpy.testing.assert_array_equal(Keeper.kept, expected)
    finally:
        Keeper.kept = None
        etarena.unregister_delegate("NumpySoftmax")


def test_what_an_allocator_raises_is_the_cause(gpu, monkeypatch):
    method = method_of(Mixed())
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    method.execute([x, y])

    def fails(*_):
        raise OSError("the bus is gone")

    monkeypatch.setattr(gpu, "copy_to_device", fails)
    with pytest.raises(etarena.DeviceError, match="the bus is gone") as caught:
        method.execute([x, y])
    assert isinstance(caught.value.__cause__, (OSError, etarena.RuntimeFailure))
    monkeypatch.undo()
    torch.testing.assert_close(method.execute([x, y])[1], x * y)


def test_an_interrupted_copy_stays_an_interrupt(gpu, monkeypatch):
    method = method_of(Mixed())
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    method.execute([x, y])

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu, "copy_to_device", interrupted)
    with pytest.raises(KeyboardInterrupt):
        method.execute([x, y])
    monkeypatch.undo()
    torch.testing.assert_close(method.execute([x, y])[1], x * y)


def test_no_room_on_the_device_is_an_exception(gpu):
    method = method_of(Chain(), inputs=1)
    x = torch.randn(3, 4)
    with pytest.raises(etarena.ArenaFullError):
        method.execute([torch.zeros(gpu.total, 4)])
    torch.testing.assert_close(method.execute([x])[0], Chain()(x))


def test_sizes_that_data_tells(gpu):
    class Kept(torch.nn.Module):
        def forward(self, x):
            kept = x[torch.nonzero(x[:, 0] > 0)[:, 0]]
            return kept * kept, x * x

    method = method_of(Kept(), inputs=1, output_devices=["vulkan", None])
    for rows in (6, 1, 9, 0, 6):
        x = torch.randn(rows, 4)
        kept, squares = method.execute([x])
        torch.testing.assert_close(kept.cpu().torch(), Kept()(x)[0])
        torch.testing.assert_close(squares, x * x)


def test_branches_take_and_return_what_is_on_the_cpu(gpu):
    class Chosen(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: (x * x) + 1, lambda x: x - 1, (x,)) * x

    method = method_of(Chosen(), inputs=1)
    for sign in (1, -1, 1):
        x = sign * torch.rand(4, 4)
        torch.testing.assert_close(method.execute([x])[0], Chosen()(x))


def test_two_devices(gpu):
    partitioners = [PlacedPartitioner("vulkan:0", "aten.mul"), PlacedPartitioner("vulkan:1", "aten.sigmoid")]

    class Both(torch.nn.Module):
        def forward(self, x):
            return (x * x).sigmoid()

    method = method_of(Both(), inputs=1, partitioners=partitioners)
    x = torch.randn(3, 4)
    torch.testing.assert_close(method.execute([x])[0], Both()(x))
    assert [copy.cause.split(" goes ")[1] for copy in method.last_run.copies] == [
        "from cpu to vulkan:0",
        "from vulkan:0 to vulkan:1",
        "from vulkan:1 to cpu",
    ]


def test_separate_arenas_run_side_by_side(gpu):
    methods = [method_of(Mixed()) for _ in range(2)]
    wrong = []

    def work(method, seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(30):
            rows = int(torch.randint(1, 30, (), generator=generator))
            x, y = torch.randn(2, rows, 4, generator=generator)
            if not torch.allclose(method.execute([x, y])[1], x * y):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(method, seed)) for seed, method in enumerate(methods)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
