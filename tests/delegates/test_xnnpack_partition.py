"""Programs with varying sizes are cut into as few delegates as those with fixed sizes, and compute the same."""

import pytest
import torch
from executorch.backends.xnnpack.partition.config.generic_node_configs import AddConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary
from torch.nn.functional import interpolate

import etarena
from etarena.delegates.xnnpack.partition import prepared
from etarena.quiet import quiet

N = torch.export.Dim.DYNAMIC


class Attention(torch.nn.Module):
    """Attention of two heads over a batch of one, the batch dimensions folded by `torch.matmul` itself."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        query, key, value = (
            layer(x).view(1, x.shape[1], 2, 8).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(query @ key.transpose(-1, -2) * 0.3, -1)
        return self.out((weights @ value).transpose(1, 2).reshape(1, x.shape[1], 16))


class Folded(torch.nn.Module):
    """A product whose folded result is also used as it is."""

    def forward(self, x):
        y = torch.relu(x).view(2, x.shape[2], 8)
        product = torch.bmm(y, y.transpose(1, 2))
        return product.view(1, 2, x.shape[2], x.shape[2]) + 1, product * 2


class Flattened(torch.nn.Module):
    """A convolution over pictures of any size, and a linear layer over their pixels in a row."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        y = torch.relu(self.convolution(x)).flatten(2).transpose(1, 2)
        z = torch.relu(self.linear(y)).transpose(1, 2)
        return z.reshape(1, 4, x.shape[2], x.shape[3]) * 2


class Merged(torch.nn.Module):
    """A view that joins a varying size with a fixed one, one that takes them apart, one that adds sizes of 1."""

    def forward(self, x):
        y = torch.relu(x).view(x.shape[0] * 4, 6)
        return torch.relu((y * 2).view(x.shape[0], 4, 6) + 1).view(1, x.shape[0], 1, 24) * 3


class Resized(torch.nn.Module):
    """Two resizings: one to another size, one to the size that is there."""

    def forward(self, x, like):
        small = interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)
        return interpolate(x * 2, size=x.shape[2:], mode="bilinear", align_corners=False) + 1, small + like


class Unsqueezed(torch.nn.Module):
    """A size of 1 at the end, where both, one and none of the other sizes vary."""

    def forward(self, x, y, z):
        return [torch.relu((torch.relu(item) * 2).unsqueeze(-1) + 1) * 3 for item in (x, y, z)]


class Squeezed(torch.nn.Module):
    """A size of 1 taken away at the end."""

    def forward(self, x):
        return torch.relu((torch.relu(x) * 2).squeeze(-1) + 1) * 3


class Convolved(torch.nn.Module):
    """A convolution over one dimension, its normalisation fused, and back to the length there was."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv1d(3, 8, 3, stride=2, padding=1)
        self.normalisation = torch.nn.BatchNorm1d(8)
        self.transposed = torch.nn.ConvTranspose1d(8, 3, 2, stride=2)

    def forward(self, x):
        y = torch.relu(self.normalisation(self.convolution(torch.relu(x)))) * 2
        return torch.relu(self.transposed(y)) + 1


class Normalised(torch.nn.Module):
    """Normalisations over channels that follow no convolution, of three and of two dimensions."""

    def __init__(self):
        super().__init__()
        self.three, self.two = (torch.nn.BatchNorm1d(4) for _ in range(2))
        with torch.no_grad():
            for layer in (self.three, self.two):
                layer.running_mean.uniform_(-1, 1)
                layer.running_var.uniform_(0.5, 2)

    def forward(self, x, y):
        return torch.relu(self.three(torch.relu(x))) * 2, torch.relu(self.two(torch.relu(y))) * 2


# Each with shapes, what varies, sizes to run, and how many delegates more than a fixed export it may have: a view that
# splits pixels into rows cannot be said to XNNPACK. None: not counted.
MODELS = {
    "attention": (Attention, [(1, 5, 16)], [{1: N}], [(9,), (1,), (40,), (2,), (40,)], 0),
    "folded": (Folded, [(1, 2, 5, 8)], [{2: N}], [(7,), (1,), (33,), (7,)], None),
    "flattened": (Flattened, [(1, 3, 6, 9)], [{2: N, 3: N}], [(5, 8), (1, 1), (30, 17), (1, 40), (5, 8)], 1),
    "merged": (Merged, [(5, 4, 6)], [{0: N}], [(3,), (1,), (0,), (50,), (2,)], 0),
    "resized": (
        Resized,
        [(1, 2, 6, 7), (1, 2, 11, 5)],
        [{2: N, 3: N}, {2: N, 3: N}],
        [(4, 5, 9, 9), (1, 1, 3, 2), (12, 9, 2, 30)],
        None,
    ),
    "unsqueezed": (
        Unsqueezed,
        [(5, 4, 6), (5, 4, 6), (5, 4, 6)],
        [{0: N, 2: N}, {1: N}, {}],
        [(3, 7, 4), (1, 1, 1), (20, 9, 33), (3, 7, 4)],
        None,
    ),
    "squeezed": (Squeezed, [(5, 4, 6, 1)], [{0: N, 2: N}], [(3, 7), (1, 1), (20, 9), (3, 7)], None),
    "convolved": (Convolved, [(5, 3, 8)], [{0: N, 2: N}], [(2, 8), (1, 1), (7, 31), (2, 9)], None),
    "convolved length": (Convolved, [(2, 3, 8)], [{2: N}], [(8,), (1,), (31,), (9,)], 0),
    "normalised": (
        Normalised,
        [(5, 4, 6), (5, 4)],
        [{0: N, 2: N}, {0: N}],
        [(3, 7, 2), (2, 1, 1), (20, 9, 30), (3, 7, 2)],
        None,
    ),
    "normalised batch": (Normalised, [(5, 4, 6), (5, 4)], [{0: N}, {0: N}], [(3, 2), (2, 1), (20, 30), (3, 2)], 0),
}


def inputs_at(shapes, dynamic, sizes):
    sizes = iter(sizes)
    filled = [
        [next(sizes) if dim in dims else size for dim, size in enumerate(shape)]
        for shape, dims in zip(shapes, dynamic, strict=True)
    ]
    return tuple(torch.randn(shape) for shape in filled)


def tensors(result):
    return [torch.from_dlpack(item) for item in (result if isinstance(result, tuple | list) else [result])]


def delegates(buffer):
    (plan,) = deserialize_pte_binary(buffer).program.execution_plan
    return sum(delegate.id == "XnnpackBackend" for delegate in plan.delegates)


def lowered(module, example, dynamic, **options):
    return etarena.export(
        module, example, dynamic_shapes=tuple(dynamic), partitioners=[XnnpackPartitioner()], **options
    )


@pytest.fixture(params=MODELS, scope="module")
def case(request):
    kind, shapes, dynamic, sizes, more = MODELS[request.param]
    torch.manual_seed(0)
    module = kind().eval()
    example = tuple(torch.randn(shape) for shape in shapes)
    return module, shapes, dynamic, sizes, more, lowered(module, example, dynamic)


def test_results_at_every_size_on_a_scribbled_arena(case):
    module, shapes, dynamic, sizes, _, exported = case
    arena = etarena.Arena(1 << 32, poison=True)
    method = etarena.load(exported.buffer, arena).method()
    for size in sizes:
        inputs = inputs_at(shapes, dynamic, size)
        with torch.no_grad():
            expected = tensors(module(*inputs))
        for actual, wanted in zip(tensors(method(*inputs)), expected, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-5)


def test_as_many_delegates_as_the_stock_export_with_fixed_sizes(case):
    module, shapes, *_, more, exported = case
    with quiet():
        program = torch.export.export(module, tuple(torch.randn(shape) for shape in shapes))
        stock = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    assert more is None or delegates(exported.buffer) <= delegates(bytes(stock.buffer)) + more


def test_results_are_those_of_the_stock_backend_bit_for_bit():
    torch.manual_seed(0)
    module = Attention().eval()
    x = torch.randn(1, 23, 16)
    with quiet():
        static = to_edge_transform_and_lower(torch.export.export(module, (x,)), partitioner=[XnnpackPartitioner()])
    stock = etarena.load(bytes(static.to_executorch().buffer)).method()
    ours = etarena.load(lowered(module, (torch.randn(1, 5, 16),), [{1: N}]).buffer).method()
    assert torch.equal(tensors(ours(x))[0], tensors(stock(x))[0])


def test_the_partitioner_given_stays_as_it_was():
    given = XnnpackPartitioner()
    before = dict(given.target_partitioner_configs)
    passes, (chosen,) = (lambda found: (found[0], found[1]["forward"]))(prepared({"forward": [given]}))
    assert given.target_partitioner_configs == before
    assert set(chosen.target_partitioner_configs) == {*before, "batch_matmul.default"}
    assert len(passes["forward"]) == 3


def test_a_partitioner_that_takes_no_products_or_views_is_given_none():
    partitioner = XnnpackPartitioner(configs=[AddConfig])
    passes, chosen = prepared({"forward": [partitioner], "other": []})
    assert passes == {}
    assert chosen == {"forward": [partitioner], "other": []}
    x = torch.randn(1, 6, 16)
    module = Attention().eval()
    exported = etarena.export(
        module, (torch.randn(1, 5, 16),), dynamic_shapes=({1: N},), partitioners=[XnnpackPartitioner([AddConfig])]
    )
    with torch.no_grad():
        torch.testing.assert_close(tensors(etarena.load(exported.buffer).method()(x))[0], module(x))


@pytest.mark.parametrize(
    ("module", "shape", "dynamic", "delegated"),
    [
        (torch.nn.Conv1d(3, 8, 3), (5, 3, 8), {0: N, 2: N}, 0),
        (torch.nn.Conv1d(3, 8, 3), (5, 3, 8), {2: N}, 1),
        (torch.nn.Conv2d(3, 8, 3), (5, 3, 8, 8), {0: N, 2: N, 3: N}, 1),
        (torch.nn.BatchNorm1d(3), (5, 3, 8), {0: N, 2: N}, 0),
        (torch.nn.BatchNorm1d(3), (5, 3, 8), {0: N}, 1),
        (torch.nn.BatchNorm2d(3), (5, 3, 8, 8), {0: N, 2: N, 3: N}, 1),
        (torch.nn.Unflatten(1, (3, 1)), (5, 3), {0: N}, 1),
    ],
)
def test_only_reshapes_of_several_varying_sizes_are_left_out(module, shape, dynamic, delegated):
    exported = lowered(module.eval(), (torch.randn(shape),), [dynamic])
    assert delegates(exported.buffer) == delegated
