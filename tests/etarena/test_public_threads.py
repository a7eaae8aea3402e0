"""Small models behind public reports, with the numbers from there; docs/public-threads.md says which is which."""

import weakref

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import nn
from torch.export import Dim

import etarena

from ..helpers.oracle import load_exported, run_and_compare

DYNAMIC = Dim.DYNAMIC
X = torch.tensor([1.0, 2.0, 3.0])


class Applied(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def listed(outputs):
    return [output.tolist() for output in outputs]


def load(function, *example, shapes=None, partitioners=(), **modules):
    """Method of a model at work on a garbage-filled arena."""
    dims = None if shapes is None else (tuple(shapes),)
    program = load_exported(Applied(function, **modules).eval(), example, dims, partitioners=list(partitioners))
    program.arena.scribble()
    return program.method()


class TestControlFlow:
    def test_executorch_21490_two_branches_whose_results_live_together(self):
        def two(self, x):
            a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
            b = torch.cond(x.sum() > -1e9, lambda v: v * 10, lambda v: v * 100, (x,))
            return a + b, a, b

        assert listed(load(two, X).execute([X])) == [[12, 23, 34], [2, 3, 4], [10, 20, 30]]

    def test_executorch_21490_a_branch_in_a_branch_and_an_outer_value(self):
        def outer(v, w):
            return v * 2 + torch.cond(w.sum() > 0, lambda q: q + 5, lambda q: q - 5, (w,))

        def nested(self, x):
            a = torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))
            b = torch.cond(x.sum() > -1e9, outer, lambda v, w: v * w, (x, a))
            return a, b, a + b

        assert listed(load(nested, X).execute([X])) == [[2, 3, 4], [9, 12, 15], [11, 15, 19]]

    def test_onnxruntime_3900_branches_of_a_buffer_and_of_constants(self):
        def chosen(self, x):
            a = torch.cond(x.sum() > 0, lambda v: v.clone(), lambda v: self.offset.clone(), (x,))
            return a, torch.cond(x.sum() > 0, lambda: torch.full((2,), 3), lambda: torch.full((2,), 4))

        method = load(chosen, X, offset=nn.Buffer(torch.tensor([7.0, 8.0, 9.0])))
        first, second, third = (method.execute([x]) for x in (X, -X, X * 2))
        assert listed(first) == [[1, 2, 3], [3, 3]]
        assert listed(second) == [[7, 8, 9], [4, 4]]
        assert listed(third) == [[2, 4, 6], [3, 3]]


class TestSizes:
    def test_executorch_8766_and_20834_no_upper_bound(self):
        calls = [(torch.randn(n, 4),) for n in (1, 3, 5, 6, 50, 0)]
        model = Applied(lambda self, x: torch.relu(x) + 1)
        run_and_compare(model, (torch.randn(5, 4),), (({0: DYNAMIC},),), calls)

    def test_tvm_18663_only_a_lower_bound(self):
        model = Applied(lambda self, x: self.conv(x), conv=nn.Conv2d(3, 64, 3, padding=1))
        calls = [(torch.randn(b, 3, 32, 32),) for b in (1, 2, 7)]
        run_and_compare(model, (torch.randn(2, 3, 32, 32),), (({0: Dim("b", min=1)},),), calls)

    def test_executorch_18956_capacity_beyond_the_example(self):
        method = load(lambda self, x: x * 2, torch.ones(2, 3), shapes=[{0: DYNAMIC}])
        assert listed(method.execute([torch.ones(5, 3)])) == [[[2.0] * 3] * 5]

    def test_rows_found_by_nonzero_index_their_own_source(self):
        model = Applied(lambda self, x: x[torch.nonzero(x > 0)[:, 0]])
        calls = [(torch.tensor(rows),) for rows in ([[0.0, 1], [2, 3]], [[-1.0, -1]], [[1.0, -1], [-1, -1], [4, 4]])]
        run_and_compare(model, calls[0], (({0: DYNAMIC},),), calls)

    def test_executorch_20_the_worst_case_is_not_paid(self):
        ids = torch.randint(512, (1, 5))
        embed = {"table": nn.Embedding(512, 16), "out": nn.Linear(16, 512)}
        method = load(lambda self, i: self.out(self.table(i)), ids, shapes=[{1: Dim("n", max=2048)}], **embed)
        assert method.plan_for([(1, 7)]).peak < 32 << 10

    def test_optimum_executorch_73_an_image_pays_for_its_own_size(self):
        sizes = {2: Dim("h", max=2160), 3: Dim("w", max=3840)}
        image = torch.randn(1, 3, 64, 64)
        method = load(
            lambda self, x: torch.relu(self.conv(x)).mean((2, 3)),
            image,
            shapes=[sizes],
            conv=nn.Conv2d(3, 16, 3, padding=1),
        )
        # The convolution's 16 planes and their relu.
        assert method.plan_for([image.shape]).peak <= 2 * 16 * 64 * 64 * 4 + 1024
        assert method.plan_for([(1, 3, 2160, 3840)]).peak <= 1_061_683_200 + 1024

    def test_executorch_11988_chained_size_arithmetic(self):
        def sizes(self, x):
            n = x.shape[0]
            return torch.zeros(max(n, 4), 2) + 1, x.new_zeros(n // 2 + 1), x.new_ones(n % 4), x.new_ones(-(-n // 4)), n

        calls = [(torch.randn(n),) for n in (3, 4, 9, 0, 17)]
        run_and_compare(Applied(sizes), (torch.randn(6),), (({0: DYNAMIC},),), calls)

    def test_tflite_micro_3588_products_that_wrap(self):
        method = load(lambda self, x: x + 1, torch.ones(3, 4), shapes=[{0: DYNAMIC, 1: DYNAMIC}])
        assert method.plan_for([(65536, 65536)]).output_bytes == 1 << 34
        for shape in ((-1, 4), (1,) * 17):
            with pytest.raises(etarena.Error):
                method.plan_for([shape])
        with pytest.raises(etarena.Error):
            method.execute([torch.ones((1,) * 17)])
        assert listed(method.execute([torch.zeros(1, 2)])) == [[[1.0, 1.0]]]

    def test_executorch_13935_an_empty_input_is_returned(self):
        calls = [(torch.randn(n, 4),) for n in (0, 3, 0)]
        run_and_compare(Applied(lambda self, x: (x, x * 2)), (torch.randn(3, 4),), (({0: DYNAMIC},),), calls)

    def test_executorch_22331_results_and_inputs_without_dimensions(self):
        def largest(self, x):
            m = torch.max(x)
            return m, m - (m - 1)

        assert listed(load(largest, X).execute([X])) == [3.0, 1.0]
        assert listed(load(lambda self, x: x + 1, torch.tensor(3)).execute([torch.tensor(41)])) == [42]

    def test_executorch_20546_a_limit_for_each_dimension(self):
        def refuses(dim, legal, illegal, match):
            method = load(lambda self, x: x + 1, torch.ones(legal), shapes=[{0: dim}])
            with pytest.raises(etarena.ShapeError, match=match):
                method.execute([torch.ones(illegal)])
            assert listed(method.execute([torch.zeros(legal)])) == [[1.0] * legal]

        refuses(Dim("d", min=5), 8, 3, "d must be at least 5")
        refuses(4 * Dim("d"), 8, 30, "30.*must be")

    @pytest.mark.parametrize("partitioners", [[], [XnnpackPartitioner()]], ids=["cpu", "xnnpack"])
    def test_executorch_22409_results_below_the_bound(self, partitioners):
        s = Dim("s", max=64)
        embed = Applied(lambda self, ids: self.table(ids), table=nn.Embedding(32, 16))
        calls = [(torch.randint(32, (1, n)),) for n in (64, 17, 1)]
        run_and_compare(embed, calls[0], (({1: s},),), calls, partitioners=partitioners)
        join = Applied(lambda self, x, y: torch.cat([x, y], 0))
        calls = [(torch.randn(n, 8), torch.randn(n, 8)) for n in (64, 17, 1)]
        run_and_compare(join, calls[0], (({0: s}, {0: s}),), calls, partitioners=partitioners)


class TestLayouts:
    def test_executorch_21837_channels_last_into_a_contiguous_method(self):
        x = torch.arange(12.0).reshape(1, 3, 2, 2)
        method = load(lambda self, x: x * 2, x)
        assert listed(method.execute([x.to(memory_format=torch.channels_last)])) == [(x * 2).tolist()]

    def test_executorch_21828_a_contiguous_image_into_a_channels_last_method(self):
        x = torch.arange(12.0).reshape(1, 3, 2, 2)
        method = load(lambda self, x: x * 2, x.to(memory_format=torch.channels_last))
        assert listed(method.execute([x])) == [(x * 2).tolist()]

    def test_flip_of_a_channels_last_image(self):
        x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
        run_and_compare(Applied(lambda self, x: torch.flip(x, [2])), (x,), None, [(x,), (x.contiguous(),)])

    @pytest.mark.parametrize("partitioners", [[], [XnnpackPartitioner()]], ids=["cpu", "xnnpack"])
    def test_executorch_19153_convolutions_in_channels_last(self, partitioners):
        one = nn.Conv2d(1, 5, 1)
        depthwise = nn.Conv2d(8, 8, 3, groups=8).to(memory_format=torch.channels_last)
        for conv, shape in ((one, (1, 1, 7, 5)), (depthwise, (2, 8, 7, 5))):
            x = torch.randn(shape).to(memory_format=torch.channels_last)
            model = Applied(lambda self, x: self.conv(x), conv=conv).eval()
            run_and_compare(model, (x,), None, [(x,), (x.contiguous(),)], partitioners=partitioners)


class TestOutputsAndState:
    def test_executorch_22787_one_value_twice_and_beside_its_view(self):
        x = torch.randn(2, 48)

        def both(self, x):
            y = x + 1
            return y, y, y.view(2, 48), y.view(-1)

        run_and_compare(Applied(both), (x,), None, [(x,), (x * 3,)])

    def test_executorch_1897_the_callers_input_is_not_kept(self):
        method = load(lambda self, x: (x, x.flatten(), x + 1), torch.ones(3, 2), shapes=[{0: DYNAMIC}])
        x = torch.ones(5, 2)
        kept = weakref.ref(x)
        outputs = method.execute([x])
        assert listed(outputs) == [[[1.0] * 2] * 5, [1.0] * 10, [[2.0] * 2] * 5]
        del x, outputs
        assert kept() is None

    def test_executorch_19067_and_19482_written_in_place_and_read_again(self):
        def rewritten(self, x):
            y = x + 0
            y[torch.arange(x.shape[0])] = y * 2
            y += torch.flip(y, [0])
            return y

        run_and_compare(Applied(rewritten), (X,), (({0: DYNAMIC},),), [(torch.randn(n),) for n in (3, 1, 8, 0)])

    def test_executorch_8764_graph_breaks_do_not_add_up(self):
        def broken(self, x):
            for conv in self.convs:
                x = torch.cumsum(conv(x), -1) * 0.01
            return x

        convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
        x = torch.randn(1, 8, 256, 256)
        method = load(broken, x, convs=convs, partitioners=[XnnpackPartitioner()])
        with torch.no_grad():
            expected = broken(Applied(None, convs=convs), x)
        torch.testing.assert_close(method.execute([x])[0], expected, rtol=1e-3, atol=1e-4)
        run = method.last_run
        assert run.scratch_outside_arena == ()
        assert run.arena_bytes <= run.lower_bound_bytes  # the most that any one step needs, its workspace included
