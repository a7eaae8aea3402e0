"""Which sizes an exported model takes: zero and one, the user's limits, the model's own conditions."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena

from ..helpers.oracle import load_exported, run_and_compare

DYNAMIC = Dim.DYNAMIC


class Function(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def shapes_of(*dims):
    """dynamic_shapes of a Function: for each input, which dimensions vary."""
    return (tuple(dims),)


def limits(exported):
    return {symbol.name: (symbol.min, symbol.max) for symbol in exported.plan().symbols}


def test_unbounded_sizes_have_no_limits_of_torchs_own():
    exported = etarena.export(
        Function(lambda self, x: torch.relu(x) + 1), (torch.randn(5, 4),), dynamic_shapes=shapes_of({0: DYNAMIC})
    )
    assert list(limits(exported).values()) == [(0, 2**63 - 1)]
    assert exported.plan().guards == []


def test_the_users_names_and_limits():
    rows = Dim("rows", min=3, max=9)
    exported = etarena.export(
        Function(lambda self, x, y: x.sum(0) + y.sum(0)),
        (torch.randn(4, 3), torch.randn(8, 3)),
        dynamic_shapes=shapes_of({0: rows}, {0: 2 * rows}),
    )
    assert limits(exported) == {"rows": (3, 9)}
    assert repr(exported).startswith("ExportedModel(forward(inputs_0[rows, 3], inputs_1[2*rows, 3]);")


ONE_AND_ZERO = {
    "matmul": lambda self, x: torch.softmax(x @ x.transpose(1, 2), -1) @ x,
    "linear of a transposed": lambda self, x: self.linear(x.transpose(1, 2).contiguous().transpose(1, 2)),
    "attention": lambda self, x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "reshape": lambda self, x: x.transpose(0, 1).reshape(-1, 4).sum(0),
    "layer norm": lambda self, x: self.norm(x) * 2,
}


@pytest.mark.parametrize("function", ONE_AND_ZERO.values(), ids=ONE_AND_ZERO)
def test_size_one_of_kernels_that_choose_a_path_by_size(function):
    model = Function(function, linear=nn.Linear(4, 4), norm=nn.LayerNorm(4))
    calls = [(torch.randn(b, s, 4),) for b, s in [(2, 3), (1, 1), (5, 1), (1, 7)]]
    run_and_compare(model, (torch.randn(2, 3, 4),), shapes_of({0: DYNAMIC, 1: DYNAMIC}), calls)


def test_an_example_of_size_one_does_not_fix_the_size():
    model = Function(lambda self, x: torch.relu(self.conv(x)), conv=nn.Conv2d(3, 4, 3, padding=1))
    calls = [(torch.randn(b, 3, s, s),) for b, s in [(1, 8), (3, 5), (1, 1), (0, 4)]]
    run_and_compare(model, (torch.randn(1, 3, 8, 8),), shapes_of({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}), calls)


def test_a_broadcast_whose_two_sides_grow():
    calls = [(torch.randn(1, d), torch.randn(d, 1)) for d in (2, 4, 1, 7, 0)]
    shapes = shapes_of({1: DYNAMIC}, {0: DYNAMIC})
    run_and_compare(Function(lambda self, x, y: x - y), (torch.randn(1, 5), torch.randn(5, 1)), shapes, calls)


def test_sizes_that_torch_found_equal_must_be_equal():
    program = load_exported(
        Function(lambda self, x, y: x + y),
        (torch.randn(5, 2), torch.randn(5, 2)),
        shapes_of({0: DYNAMIC}, {0: DYNAMIC}),
    )
    method = program.method()
    assert method(torch.ones(1, 2), torch.ones(1, 2))[0].shape == (1, 2)
    with pytest.raises(etarena.ShapeError):
        method(torch.ones(1, 2), torch.ones(3, 2))


CONDITIONS = {
    "a branch of the model's own": (lambda self, x: x + 1 if x.shape[0] > 4 else x - 1, [5, 9], [4, 0]),
    "a branch on size one": (lambda self, x: x * 2 if x.shape[0] == 1 else x, [0, 2, 7], [1]),
    "divisibility": (lambda self, x: x.reshape(-1, 2, 3).sum(1), [2, 6, 0], [3, 5]),
    "squeeze": (lambda self, x: x.squeeze(0) * 2, [0, 2, 6], [1]),
    "a kernel that must fit": (lambda self, x: x.unfold(0, 3, 1).sum(-1), [3, 8], [2, 0]),
    "a slice that must fit": (lambda self, x: x[2:5] * 2, [5, 8], [4, 1]),
}


@pytest.mark.parametrize(("function", "legal", "illegal"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions_of_the_model_are_checked(function, legal, illegal):
    model = Function(function)
    program = load_exported(model, (torch.randn(6, 3),), shapes_of({0: DYNAMIC}))
    method = program.method()
    for size in legal:
        x = torch.randn(size, 3)
        assert torch.equal(method(x)[0], model(x))
    for size in illegal:
        with pytest.raises(etarena.ShapeError):
            method(torch.randn(size, 3))


INNER_SIZES = {
    "bmm": lambda self, x: torch.bmm(x, x.transpose(1, 2)),
    "mm": lambda self, x: torch.mm(x[0], x[1].transpose(0, 1)),
    "addmm": lambda self, x: torch.addmm(self.bias, x[0].transpose(0, 1), x[1].transpose(0, 1).transpose(0, 1)),
    "linear": lambda self, x: nn.functional.linear(x[0], x[1]),
}


@pytest.mark.parametrize("name", INNER_SIZES)
def test_a_matrix_product_over_no_elements_is_refused_where_it_has_a_result(name):
    model = Function(INNER_SIZES[name])
    model.register_buffer("bias", torch.ones(1))
    inner = 1 if name == "addmm" else 2
    method = load_exported(model, (torch.randn(2, 3, 5),), shapes_of({1: DYNAMIC, 2: DYNAMIC})).method()
    for n, k in [(4, 6), (1, 1), (0, 0), (0, 3) if inner == 2 else (3, 0)]:
        x = torch.randn(2, n, k)
        torch.testing.assert_close(method(x)[0], model(x))
    with pytest.raises(etarena.ShapeError, match=r"the inner size s\d+ of aten\.\w+ must not be 0"):
        method(torch.randn(2, 3, 0) if inner == 2 else torch.randn(2, 0, 3))


def test_attention_over_no_tokens_stays_legal():
    model = Function(lambda self, x: torch.softmax(x @ x.transpose(1, 2), -1) @ x)
    section = etarena.export(model, (torch.randn(2, 3, 4),), dynamic_shapes=shapes_of({0: DYNAMIC, 1: DYNAMIC})).plan()
    assert section.guards == []


def test_conditions_on_one_size_become_its_limits():
    model = Function(lambda self, x: x[2:5] * (2 if x.shape[0] < 50 else 3))
    section = etarena.export(model, (torch.randn(6, 3),), dynamic_shapes=shapes_of({0: DYNAMIC})).plan()
    assert [(symbol.min, symbol.max) for symbol in section.symbols] == [(5, 49)]
    assert section.guards == []


def test_a_program_exported_elsewhere_keeps_only_limits_above_two():
    model = Function(lambda self, x: self.linear(torch.relu(x)), linear=nn.Linear(4, 4))
    program = torch.export.export(model, (torch.randn(5, 4),), dynamic_shapes=shapes_of({0: DYNAMIC}))
    method = etarena.load(etarena.export(program).buffer, etarena.Arena(1 << 36)).method()
    for size in (5, 1, 0, 40):
        x = torch.randn(size, 4)
        torch.testing.assert_close(method(x)[0], model(x))


def test_exporting_leaves_torchs_settings_as_they_were():
    from torch.fx.experimental import _config
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    before = (_config.backed_size_oblivious, ShapeEnv.evaluate_expr)
    etarena.export(Function(lambda self, x: x + 1), (torch.randn(5, 4),), dynamic_shapes=shapes_of({0: DYNAMIC}))
    with pytest.raises(etarena.ExportError):
        etarena.export(Function(lambda self, x: torch.unique(x, dim=0)), (torch.randn(5, 4),))
    assert (_config.backed_size_oblivious, ShapeEnv.evaluate_expr) == before


def test_a_decoder_called_with_token_ids_alone_runs_any_batch_and_length():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    calls = [(torch.randint(50, size),) for size in ((3, 7), (1, 7), (1, 1), (2, 1), (5, 40))]
    run_and_compare(
        Function(lambda self, ids: self.model(ids, use_cache=False).logits, model=model),
        (torch.randint(50, (4, 11)),),
        shapes_of({0: DYNAMIC, 1: DYNAMIC}),
        calls,
    )


def test_what_dynamo_remembers_is_forgotten_where_it_breaks_an_export(monkeypatch):
    """Sizes of earlier exports are excluded from later ones, depending on all that the process traced before."""
    export, failures = torch.export.export, ["Constraints violated (n)! ... the generated guard 64 != size"]

    def remembering(*args, **options):
        if failures:
            raise torch._dynamo.exc.UserError(torch._dynamo.exc.UserErrorType.CONSTRAINT_VIOLATION, failures.pop())
        return export(*args, **options)

    monkeypatch.setattr(torch.export, "export", remembering)
    exported = etarena.export(torch.nn.ReLU(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert [symbol.name for symbol in exported.plan().symbols] == ["n"]
    assert not failures
