"""Constants that every run would permute are stored permuted."""

import pytest
import torch

import etarena

N = torch.export.Dim.DYNAMIC


def loaded(model, *inputs, **options):
    exported = etarena.export(model, inputs, **options)
    return etarena.load(exported.buffer, etarena.Arena(1 << 32)).method()


class EmbeddingLinear(torch.nn.Module):
    def __init__(self, *, tied=False):
        super().__init__()
        self.embedding = torch.nn.Embedding(512, 16)
        self.linear = torch.nn.Linear(16, 512)
        if tied:
            self.linear.weight = self.embedding.weight

    def forward(self, ids):
        return self.linear(self.embedding(ids))


@pytest.mark.parametrize("tied", [False, True])
def test_small_inputs_need_little_memory(tied):
    model = EmbeddingLinear(tied=tied)
    method = loaded(model, torch.randint(512, (1, 5)), dynamic_shapes={"ids": {1: torch.export.Dim("n", max=2048)}})
    for n in (7, 2048, 1):
        ids = torch.randint(512, (1, n))
        method.arena.scribble()
        assert torch.allclose(method.execute([ids])[0], model(ids), atol=1e-5)
        # The embedded tokens and the product before its reshape: no copy of the 32 KiB weight.
        assert method.last_run.arena_bytes <= n * (16 + 512) * 4 + 64


def test_a_weight_used_both_ways():
    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 5))

        def forward(self, x):
            return x @ self.weight.t() + (x[:, :3] @ self.weight).sum(), self.weight.t(), self.weight

    model, x = Both(), torch.randn(4, 5)
    method = loaded(model, x, dynamic_shapes={"x": {0: N}})
    for result, expected in zip(method.execute([x]), model(x), strict=True):
        assert torch.allclose(result, expected, atol=1e-5)


def test_a_buffer_that_another_method_writes_is_no_constant():
    class Store(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.zeros(2, 3))

        def forward(self, x):
            self.table.copy_(x)
            return x + 0

    class Read(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.zeros(2, 3))

        def forward(self, x):
            return x @ self.table.t()

    table, x = torch.randn(2, 3), torch.randn(4, 3)
    exported = etarena.export({"store": (Store(), (table,)), "read": (Read(), (x,))})
    program = etarena.load(exported.buffer, etarena.Arena(1 << 32))
    program.method("store").execute([table])
    assert torch.allclose(program.method("read").execute([x])[0], x @ table.t(), atol=1e-6)


def test_the_callers_program_stays_as_it_was():
    model, x = EmbeddingLinear(), torch.randint(512, (1, 5))
    program = torch.export.export(model, (x,))
    names = list(program.state_dict)
    results = []
    for _ in range(2):
        exported = etarena.export(program)
        results.append(etarena.load(exported.buffer, etarena.Arena(1 << 32)).method().execute([x])[0])
    assert list(program.state_dict) == names
    assert list(model.state_dict()) == names
    assert torch.allclose(program.module()(x), results[0], atol=1e-5)
    assert torch.equal(*results)
