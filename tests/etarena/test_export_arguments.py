"""What `export` refuses, and how it says so; saving and showing the result."""

import os
import stat
import threading

import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena

X = torch.randn(5, 4)


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


IDENTITY = Lambda(lambda x: x + 1)

BAD_ARGUMENTS = {
    "not a module": (lambda: etarena.export(lambda x: x, (X,)), etarena.InputTypeError, "torch.nn.Module"),
    "args not a tuple": (lambda: etarena.export(IDENTITY, X), etarena.InputTypeError, "args is a tuple"),
    "kwargs not a dict": (lambda: etarena.export(IDENTITY, (), [X]), etarena.InputTypeError, "kwargs is a dict"),
    "unknown memory": (lambda: etarena.export(IDENTITY, (X,), memory="later"), etarena.InputError, "'later'"),
    "one partitioner": (
        lambda: etarena.export(IDENTITY, (X,), partitioners=object()),
        etarena.InputTypeError,
        "list of partitioners",
    ),
    "no partitioner": (
        lambda: etarena.export(IDENTITY, (X,), partitioners=[dict]),
        etarena.InputTypeError,
        "call it to make one",
    ),
    "partitioners of another method": (
        lambda: etarena.export(IDENTITY, (X,), partitioners={"backward": []}),
        etarena.InputError,
        "no method 'backward'; there are forward",
    ),
    "no methods": (lambda: etarena.export({}), etarena.InputError, "no method"),
    "method name": (lambda: etarena.export({3: (IDENTITY, (X,))}), etarena.InputTypeError, "method names"),
    "method entry": (
        lambda: etarena.export({"forward": (IDENTITY, (X,), {}, None, None)}),
        etarena.InputError,
        "got 5 entries",
    ),
    "args beside methods": (
        lambda: etarena.export({"forward": (IDENTITY, (X,))}, (X,)),
        etarena.InputError,
        "each its own",
    ),
    "args of a program": (
        lambda: etarena.export(torch.export.export(IDENTITY, (X,)), (X,)),
        etarena.InputError,
        "has its example inputs",
    ),
    "name in dynamic_shapes": (
        lambda: etarena.export(IDENTITY, (X,), dynamic_shapes={"y": {0: Dim.DYNAMIC}}),
        etarena.ExportError,
        r"arg names \['x'\]",
    ),
    "missing input": (lambda: etarena.export(IDENTITY, ()), etarena.ExportError, "missing"),
    "model that fails": (
        lambda: etarena.export(Lambda(lambda x: x.view(3, 3)), (X,)),
        etarena.ExportError,
        "torch.export failed for Lambda",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


DATA_DEPENDENT = {
    "unique_dim": lambda x: torch.unique(x, dim=0),
    "unique_consecutive": lambda x: torch.unique_consecutive(x, dim=0),
}


@pytest.mark.parametrize(("name", "function"), DATA_DEPENDENT.items(), ids=DATA_DEPENDENT)
def test_an_operator_that_tells_its_own_size_and_has_no_kernel_is_refused_by_name(name, function):
    with pytest.raises(etarena.ExportError, match=rf"{name}.*along a dimension has no kernel"):
        etarena.export(Lambda(function), (X,))


def test_a_dtype_that_the_runtime_lacks_is_refused_by_value_and_name():
    with pytest.raises(etarena.ExportError, match=r"'\w+copy\w*' has dtype float8_?e4m3fn.*convert"):
        etarena.export(Lambda(lambda x: x.to(torch.float8_e4m3fn)), (X,))


def test_batch_norm_in_training_mode_names_the_way_out():
    with pytest.raises(etarena.ExportError, match=r"native_batch_norm.*call model\.eval\(\)"):
        etarena.export(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train(), (torch.randn(2, 3, 8, 8),))


def test_a_failed_lowering_names_its_innermost_cause_in_a_few_lines(monkeypatch):
    def fail(*_):
        try:
            raise TypeError("the kernel wants floats\nand more")
        except TypeError as error:
            raise RuntimeError("An error occurred when running a pass\n" * 100) from error

    monkeypatch.setattr("etarena.exporter.lower", fail)
    with pytest.raises(etarena.ExportError, match=r"caused by TypeError: the kernel wants floats$") as raised:
        etarena.export(IDENTITY, (X,))
    assert len(str(raised.value).splitlines()) < 10


def test_a_number_from_data_that_is_no_size_is_fine():
    model = Lambda(lambda x: x * x.sum().item())
    method = etarena.load(etarena.export(model, (X,)).buffer, etarena.Arena(1 << 34)).method()
    torch.testing.assert_close(method(X)[0], model(X))


def test_case_4_a_branch_that_returns_its_operand_returns_a_copy():
    model = Lambda(lambda x: torch.cond(x.sum() > 0, lambda v: v, lambda v: v * 2, (x,)))
    method = etarena.load(etarena.export(model, (X,)).buffer, etarena.Arena(1 << 34)).method()
    for x, expected in ((X.abs() + 1, X.abs() + 1), (-X.abs() - 1, -2 * X.abs() - 2)):
        (result,) = method(x)
        x.zero_()
        torch.testing.assert_close(result, expected)


def test_save_writes_the_file_in_one_piece_with_ordinary_permissions(tmp_path):
    exported = etarena.export(IDENTITY, (X,))
    target = tmp_path / "model.pte"
    target.write_bytes(b"older")
    exported.save(target)
    assert target.read_bytes() == exported.buffer
    assert [path.name for path in tmp_path.iterdir()] == ["model.pte"]
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_save_keeps_a_link_and_writes_what_it_points_at(tmp_path):
    exported = etarena.export(IDENTITY, (X,))
    target, link = tmp_path / "model-1.pte", tmp_path / "model.pte"
    target.write_bytes(b"older")
    link.symlink_to(target.name)
    exported.save(link)
    assert link.is_symlink()
    assert target.read_bytes() == exported.buffer
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model-1.pte", "model.pte"]


def test_save_writes_to_a_pipe_and_never_replaces_it(tmp_path):
    exported = etarena.export(IDENTITY, (X,))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    exported.save(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(10)
    assert received == [exported.buffer]


def test_save_into_a_missing_folder_leaves_nothing_behind(tmp_path):
    exported = etarena.export(IDENTITY, (X,))
    with pytest.raises(FileNotFoundError):
        exported.save(tmp_path / "missing" / "model.pte")
    assert list(tmp_path.iterdir()) == []


def test_plan_names_the_methods_there_are():
    with pytest.raises(KeyError, match="'backward'; there are forward"):
        etarena.export(IDENTITY, (X,)).plan("backward")


def test_structures_that_files_cannot_name_are_flattened():
    model = Lambda(lambda x: torch.max(x, dim=1))
    method = etarena.load(etarena.export(model, (X,)).buffer, etarena.Arena(1 << 34)).method()
    values, indices = method(X)
    expected = model(X)
    assert torch.equal(values, expected.values)
    assert torch.equal(indices, expected.indices)
