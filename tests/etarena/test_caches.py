"""Growable caches: equal to eager over growing lengths, O(new) writes, windows, refusals, failures change nothing."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena
from etarena import ops

from ..helpers.oracle import assert_same, load_exported

DYNAMIC = Dim.DYNAMIC
COUNTS = [3, 1, 5, 1, 0, 2, 40, 1, 1]


class Cache(nn.Module):
    """One cache of any shape; returns what it holds."""

    def __init__(self, shape, dim, window=None, dtype=torch.float32):
        super().__init__()
        self.dim, self.window = dim, window
        self.register_buffer("cache", torch.zeros(shape, dtype=dtype))

    def forward(self, new):
        return ops.append(self.cache, new, self.dim, window=self.window) + 0


def entries(shape, dim, count, dtype=torch.float32):
    sizes = list(shape)
    sizes[dim] = count
    return (torch.randn(sizes, generator=torch.Generator().manual_seed(count)) * 50).to(dtype)


LAYOUTS = {
    "rows": ((0, 4), 0),
    "heads_outside": ((1, 2, 0, 4), 2),
    "batch_and_heads_outside": ((3, 2, 0, 4), 2),
    "tokens_outside": ((1, 0, 2, 4), 1),
    "last_dimension": ((2, 3, 0), 2),
    "vector": ((0,), 0),
    "with_a_start_value": ((2, 3, 4), 1),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout(name):
    shape, dim = LAYOUTS[name]
    model = Cache(shape, dim)
    torch.nn.init.normal_(model.cache, generator=torch.Generator().manual_seed(0))
    program = load_exported(model, (entries(shape, dim, 2),), {"new": {dim: DYNAMIC}})
    state = program.method().state["cache"]
    start = state.address
    assert torch.equal(state.tensor(), model.cache)
    for count in COUNTS:
        program.arena.scribble()
        new = entries(shape, dim, count)
        (actual,) = program.method().execute([new])
        assert_same(actual, model(new))
        assert torch.equal(state.tensor(), model.cache)
        assert (state.numpy() == model.cache.numpy()).all()
        assert program.method().last_run.state_bytes == model.cache.nbytes
        assert program.method().last_run.state_bytes_written == new.nbytes
    assert start in (0, state.address)
    program.reset()
    assert state.shape == shape


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.float64], ids=str)
def test_any_dtype(dtype):
    shape, dim = (2, 0, 3), 1
    model = Cache(shape, dim, dtype=dtype)
    program = load_exported(model, (entries(shape, dim, 2, dtype),), {"new": {dim: DYNAMIC}})
    for count in COUNTS:
        new = entries(shape, dim, count, dtype)
        assert_same(program.method().execute([new])[0], model(new))


@pytest.mark.parametrize("window", [1, 4, 7])
def test_a_window_keeps_the_last_entries(window):
    shape, dim = (1, 2, 0, 256), 2
    model = Cache(shape, dim, window)
    program = load_exported(model, (entries(shape, dim, 2),), {"new": {dim: DYNAMIC}})
    state = program.method().state["cache"]
    for count in COUNTS * 4:
        program.arena.scribble()
        new = entries(shape, dim, count)
        assert_same(program.method().execute([new])[0], model(new))
        assert state.shape[dim] <= window
        assert torch.equal(state.tensor(), model.cache)
        assert program.method().last_run.state_bytes_written == new.nbytes
    assert state.memory.usable_bytes <= state.nbytes + 3 * 4096


class Several(nn.Module):
    """Two caches in step and one of its own, appended to twice, beside an ordinary state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 0, 4))
        self.register_buffer("values", torch.zeros(1, 2, 0, 4))
        self.register_buffer("twice", torch.zeros(0, 4))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        past = ops.length(self.keys, 2)
        keys = ops.append(self.keys, x, -2, past=past)
        values = ops.append(self.values, x * 2, 2, past=past)
        ops.append(self.twice, x[0, 0], 0)
        middle = ops.length(self.twice, 0)
        both = ops.append(self.twice, x[0, 1] + 1, 0)
        self.calls.add_(1)
        return (keys * values).sum(2), both.sum(0), past, middle, ops.length(self.twice, 0)


def heads(count):
    return entries((1, 2, 0, 4), 2, count)


@pytest.fixture(scope="module")
def several():
    return etarena.export(Several(), (heads(2),), dynamic_shapes={"x": {2: DYNAMIC}})


@pytest.fixture
def program(several):
    return etarena.load(several.buffer, etarena.Arena(1 << 32))


class TestSeveralCaches:
    def test_equal_to_eager(self, program):
        model = Several()
        for count in COUNTS:
            program.arena.scribble()
            actual, expected = program.method().execute([heads(count)]), model(heads(count))
            for one, other in zip(actual, expected, strict=True):
                assert_same(one, other)
        for name, buffer in model.named_buffers():
            assert torch.equal(program.state[name].tensor(), buffer)

    def test_lengths_out_of_step_are_refused_and_nothing_changes(self, program):
        program.method().execute([heads(3)])
        program.state["values"].write(torch.ones(1, 2, 2, 4))
        before = {name: state.tensor() for name, state in program.state.items()}
        with pytest.raises(etarena.ShapeError, match="'values' holds 2 entries in dimension 2, but past says 3"):
            program.method().execute([heads(1)])
        assert all(torch.equal(state.tensor(), before[name]) for name, state in program.state.items())
        program.state["values"].write(torch.ones(1, 2, 3, 4))
        program.method().execute([heads(1)])
        assert program.state["values"].shape == (1, 2, 4, 4)

    def test_written_and_saved(self, program, several, tmp_path):
        program.method().execute([heads(5)])
        program.state.save(tmp_path / "caches")
        other = etarena.load(several.buffer, etarena.Arena(1 << 32))
        other.state.load(tmp_path / "caches")
        one, two = (loaded.method().execute([heads(2)]) for loaded in (program, other))
        assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, two, strict=True))
        with pytest.raises(etarena.InputError, match=r"has shape \[1, 2, 'any', 4\], the value \[1, 3, 5, 4\]"):
            program.state["keys"].write(torch.ones(1, 3, 5, 4))

    def test_a_plan_is_made_for_the_lengths_of_now(self, program):
        empty = program.method().plan_for([(1, 2, 7, 4)])
        program.method().execute([heads(40)])
        assert program.method().plan_for([(1, 2, 7, 4)]).peak > empty.peak

    def test_an_array_of_a_cache_stays_as_it_is(self, program):
        program.method().execute([heads(3)])
        view = program.state["keys"].numpy()
        expected = view.copy()
        program.method().execute([heads(4)])
        assert view.shape == (1, 2, 3, 4)
        assert (view == expected).all()
        program.reset()
        assert view.shape == (1, 2, 3, 4)


class Fails(nn.Module):
    """The appends have run when an index is out of range."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(0, 4))
        self.register_buffer("last", torch.zeros(3, 4), persistent=False)
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x, index):
        held = ops.append(self.cache, x, 0, window=3)
        return held.sum(0), torch.index_select(self.table, 0, index)


def test_a_failing_call_leaves_the_cache_as_it_was():
    model = Fails()
    program = load_exported(model, (torch.ones(2, 4), torch.tensor([1])), {"x": {0: DYNAMIC}, "index": None})
    method = program.method()
    for count in (2, 3, 1, 5):
        x = torch.full((count, 4), float(count))
        with pytest.raises(etarena.RuntimeFailure):
            method.execute([x, torch.tensor([77])])
        assert torch.equal(method.state["cache"].tensor(), model.cache)
        for one, other in zip(method.execute([x, torch.tensor([2])]), model(x, torch.tensor([2])), strict=True):
            assert_same(one, other)
        assert torch.equal(method.state["cache"].tensor(), model.cache)


class Prefill(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(0, 4))

    def forward(self, x):
        return ops.append(self.cache, x, 0).sum(0)


class Decode(Prefill):
    def forward(self, x):
        return ops.append(self.cache, x * 2, 0).mean(0)


class Read(Prefill):
    def forward(self):
        nothing = torch.zeros(0, 4)
        return ops.append(self.cache, nothing, 0) + 0, ops.length(self.cache, 0)


def test_methods_share_a_cache():
    x = torch.arange(12.0).view(3, 4)
    exported = etarena.export(
        {
            "prefill": (Prefill(), (x,), None, {"x": {0: DYNAMIC}}),
            "decode": (Decode(), (x[:1],)),
            "peek": (Read(), ()),
        }
    )
    program = etarena.load(exported.buffer, etarena.Arena(1 << 30))
    program.method("prefill").execute([x])
    (mean,) = program.method("decode").execute([x[1:2]])
    whole = torch.cat([x, x[1:2] * 2])
    assert_same(mean, whole.mean(0))
    held, length = program.method("peek").execute([])
    assert torch.equal(held, whole)
    assert length == 4


class TestRefusedAtExport:
    def refuse(self, model, words, *example, error=etarena.ExportError, dynamic_shapes=None):
        with pytest.raises(error, match=words):
            etarena.export(model, example or (torch.ones(2, 4),), dynamic_shapes=dynamic_shapes)

    def model(self, forward, shape=(0, 4)):
        model = Prefill()
        model.cache = torch.zeros(shape)
        model.forward = forward.__get__(model)
        return model

    def test_inside_a_branch(self):
        def forward(self, x):
            append = lambda value: ops.append(self.cache, value, 0).sum(0)  # noqa: E731
            return torch.cond(x.sum() > 0, append, lambda value: value.sum(0), (x,))

        self.refuse(self.model(forward), "inside a branch or loop|branch|cond")

    def test_used_beside_its_appends(self):
        def forward(self, x):
            return ops.append(self.cache, x, 0).sum(0) + self.cache.sum(0)

        self.refuse(self.model(forward), "uses buffer 'cache', which grows")

    def test_of_an_intermediate(self):
        self.refuse(self.model(lambda self, x: ops.append(x * 2, x, 0)), "no buffer of the model")

    def test_in_two_dimensions(self):
        model = self.model(lambda self, x: (ops.append(self.cache, x, 0), ops.length(self.cache, 1)), (0, 4))
        self.refuse(model, "grows in dimension 0 and in 1")

    def test_two_appends_with_a_window(self):
        def forward(self, x):
            ops.append(self.cache, x, 0, window=3)
            return ops.append(self.cache, x, 0, window=3)

        self.refuse(self.model(forward), "two appends with a window")

    def test_past_given_twice(self):
        def forward(self, x):
            past = ops.length(self.cache, 0)
            ops.append(self.cache, x, 0, past=past)
            return ops.append(self.cache, x, 0, past=past)

        self.refuse(self.model(forward), "appends to a cache of length")

    def test_entries_counted_by_data(self):
        def forward(self, x):
            return ops.append(self.cache, x[x[:, 0] > 0], 0).sum(0)

        self.refuse(self.model(forward), "depends on data")

    @pytest.mark.parametrize(
        ("forward", "words"),
        [
            (lambda self, x: ops.append(self.cache, x[:, :3], 0), "size 3 in dimension 1, the cache 4"),
            (lambda self, x: ops.append(self.cache, x[0], 0), "have 1 dimensions, the cache 2"),
            (lambda self, x: ops.append(self.cache, x.double(), 0), "dtype torch.float64, the cache torch.float32"),
            (lambda self, x: ops.append(self.cache, x, 5), "dim is 5, but the cache has 2"),
            (lambda self, x: ops.append(self.cache, x, 0, window=0), "window is the number of entries"),
            (lambda self, x: ops.append(self.cache, x, 0, window=-3), "window is the number of entries"),
            (lambda self, x: ops.append(self.cache, x, 0, window=1.5), "window is a number"),
            (lambda self, x: ops.append(self.cache, x, "0"), "dim must be an int"),
            (lambda self, x: ops.append(self.cache, x, 0, past=1.0), "past is the cache's length"),
            (lambda self, x: ops.append(self.cache, 3, 0), "new must be a torch.Tensor"),
            (lambda self, x: ops.length(None, 0), "cache must be a torch.Tensor"),
        ],
    )
    def test_wrong_arguments_in_eager_mode_and_at_export(self, forward, words):
        model = self.model(forward)
        with pytest.raises(etarena.Error, match=words):
            model(torch.ones(2, 4))
        self.refuse(model, words)


class TestEager:
    def test_a_wrong_past(self):
        model = Prefill()
        with pytest.raises(etarena.ShapeError, match="past is 3, but the cache holds 0"):
            ops.append(model.cache, torch.ones(2, 4), 0, past=3)
        assert model.cache.shape == (0, 4)

    def test_the_result_is_a_copy(self):
        cache = torch.zeros(0, 4)
        ops.append(cache, torch.ones(2, 4), 0).zero_()
        assert cache.tolist() == [[1.0] * 4] * 2


def test_a_result_goes_back_in_as_input_without_a_copy():
    """The other way to keep keys and values: as inputs and outputs of the method."""

    class Past(nn.Module):
        def forward(self, x, past):
            whole = torch.cat([past, x * 2], 2)
            return whole.sum(2), whole

    model, past = Past(), torch.zeros(1, 2, 0, 4)
    program = load_exported(model, (heads(2), heads(3)), {"x": {2: DYNAMIC}, "past": {2: DYNAMIC}})
    own, eager = past, past
    for count in COUNTS:
        with etarena.zero_copy():
            address = own.data_ptr()
            total, own = program.method().execute([heads(count), own])
        assert program.method().last_run.copies == ()
        assert own.data_ptr() != address
        expected, eager = model(heads(count), eager)
        assert_same(total, expected)
        assert_same(own, eager)
