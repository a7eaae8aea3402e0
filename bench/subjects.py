"""What is measured: the demo's models as etarena exports them, and as stock ExecuTorch does."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

import etarena
from etarena.demo.catalogue import make
from etarena.demo.models import DemoModel, Size
from etarena.demo.stock import export_stock
from etarena.quiet import quiet

__all__ = ["SIZES", "Subject", "run_stock"]

SIZES: dict[str, Size] = {
    "embedding_linear": (3,),
    "bert": (64,),
    "llama": (64,),
    "mobilenet_v2": (224, 224),
    "segformer": (128, 192),
}
"""The size at which each model's run time is measured. The first is so small that it measures the call itself."""

STOCK_FILES = Path("out/bench")


@dataclass
class Subject:
    """A model at one size; every program is exported when it is first needed.

    Attributes
    ----------
    name : str
        Name of the model in the demo's catalogue.
    """

    name: str
    model: DemoModel = field(init=False)

    def __post_init__(self) -> None:
        self.model = make(self.name)

    @property
    def size(self) -> Size:
        """The size whose run time is measured."""
        return SIZES[self.name]

    @cached_property
    def program(self) -> etarena.Program:
        """The model without bounds, exported and loaded by etarena into an arena of its own."""
        exported = etarena.export(
            self.model.module,
            (self.model.input(self.model.example),),
            dynamic_shapes=self.model.dynamic_shapes(),
            partitioners=self.model.partitioners(),
        )
        return etarena.load(exported.buffer, arena=etarena.Arena(name=self.name))

    @property
    def method(self) -> Any:
        """The method of `program`."""
        return self.program.method("forward")

    @cached_property
    def stock_dynamic(self) -> Any:
        """The stock runtime's method of a stock export, dynamic and bounded at `size`."""
        return run_stock(self._stock_file("dynamic"))

    @cached_property
    def stock_static(self) -> Any:
        """The stock runtime's method of a stock export for `size` alone."""
        return run_stock(self._stock_file("static"))

    def _stock_file(self, kind: str) -> Path:
        """A stock export, kept for later sessions under a name that changes with the model."""
        size = "x".join(map(str, self.size))
        path = STOCK_FILES / f"{self.name}.{kind}.{size}.{fingerprint(self.model.module)}.pte"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            buffer = export_stock(self.model, self.size, static=kind == "static").buffer
            path.write_bytes(buffer)
        return path


def fingerprint(module: torch.nn.Module) -> str:
    """Twelve hexadecimal digits that differ for another structure or other weights."""
    digest = hashlib.blake2b(repr(module).encode())
    for tensor in module.state_dict().values():
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:12]


def run_stock(path: Path) -> Any:
    """Load method ``forward`` of a file with ``executorch.runtime``."""
    with torch.no_grad(), quiet():
        from executorch.runtime import Runtime, Verification

        program = Runtime.get().load_program(path, verification=Verification.Minimal)
        method = program.load_method("forward")
    assert method is not None
    return method
