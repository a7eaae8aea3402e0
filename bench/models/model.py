"""What an entry of the list of models is, and how one gets into it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from etarena.demo.initialise import fold_batch_norms, initialise

__all__ = ["MODELS", "Adapter", "Inputs", "Model", "Recipe", "Size", "ids", "image", "model", "seeded", "subject"]

Size = tuple[int, ...]
Inputs = Callable[[Size], tuple[Tensor, ...]]
Dynamic = Sequence[dict[int, str] | None]
"""For each input the dimensions that vary, with a name for the reader; None: all its sizes are fixed."""


@dataclass(frozen=True)
class Model:
    """A model with seeded weights, and what it takes to export it without bounds and to feed it.

    Attributes
    ----------
    module : nn.Module
        In evaluation mode.
    inputs : callable
        The inputs at a size, the same on every call.
    dynamic : sequence of dict or None
        For each input the dimensions that vary.
    sizes : tuple of Size
        At least six, growing.
    example : Size
        The size the model is exported with.
    """

    module: nn.Module
    inputs: Inputs
    dynamic: Dynamic
    sizes: tuple[Size, ...]
    example: Size

    def dynamic_shapes(self) -> tuple[dict[int, Any] | None, ...]:
        """What `torch.export` is told: every size that varies is unbounded."""
        return tuple(None if dims is None else dict.fromkeys(dims, Dim.DYNAMIC) for dims in self.dynamic)


@dataclass(frozen=True)
class Recipe:
    """How to make a model: its family, the function, and whether sizes inside it depend on data."""

    family: str
    build: Callable[[], Model]
    data_dependent: bool

    def make(self) -> Model:
        """Build the model; the weights are the same on every call, and torch's generator is left alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.build()


MODELS: dict[str, Recipe] = {}
"""Every model by name."""


def model(family: str, *, data_dependent: bool = False) -> Callable[[Callable[[], Model]], Callable[[], Model]]:
    """Put the decorated function into `MODELS` under its own name."""

    def register(build: Callable[[], Model]) -> Callable[[], Model]:
        MODELS[build.__name__] = Recipe(family, build, data_dependent)
        return build

    return register


def subject(
    module: nn.Module, inputs: Inputs, dynamic: Dynamic, sizes: Sequence[Size], example: Size | None = None
) -> Model:
    """Scale the weights of `module` on the inputs of the largest size, fold batch norms, and describe the result.

    The example is by default a size between the others, so that no size that runs is the one that was traced.
    """
    example = example or tuple(size + 1 for size in sizes[1])
    fold_batch_norms(initialise(module, *inputs(sizes[-1])))
    return Model(module, inputs, dynamic, tuple(sizes), example)


class Adapter(nn.Module):
    """From the keyword arguments and output classes of `transformers` to tensors.

    Parameters
    ----------
    model : nn.Module
        What is called.
    names : sequence of str
        Keyword of each tensor that comes in.
    results : sequence of str
        Fields of the output that go out.
    **fixed
        Further keyword arguments.
    """

    def __init__(self, model: nn.Module, names: Sequence[str], results: Sequence[str], **fixed: Any) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)
        self.results = tuple(results)
        self.fixed = fixed

    def forward(self, first: Tensor, second: Tensor | None = None) -> tuple[Tensor, ...]:
        given = [first] if second is None else [first, second]
        output = self.model(**dict(zip(self.names, given, strict=True)), **self.fixed)
        return tuple(getattr(output, result) for result in self.results)


def seeded(size: Size) -> torch.Generator:
    """A generator of its own for every size."""
    return torch.Generator().manual_seed(hash(size))


def image(size: Size) -> tuple[Tensor]:
    """Noise as a batch of images; `size` is (batch, height, width)."""
    batch, height, width = size
    return (torch.randn(batch, 3, height, width, generator=seeded(size)),)


def ids(vocabulary: int) -> Inputs:
    """Token ids; a size is (batch, length)."""

    def make(size: Size) -> tuple[Tensor]:
        return (torch.randint(vocabulary, size, generator=seeded(size)),)

    return make
