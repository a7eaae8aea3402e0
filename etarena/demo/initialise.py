"""Seeded weights under which every layer's activations stay near one.

A freshly constructed network is often numerically dead: MobileNetV2 with its own initialiser answers 1e-27, and any
two zeros agree. Here one calibration input is sent through the model and every layer is rescaled as the input passes
it, so that a comparison with eager PyTorch compares numbers that carry information.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["fold_batch_norms", "initialise", "layer_scales"]

_SPREAD = 0.1
"""Standard deviation of biases, and of scales around one: large enough that forgetting one shows."""


def initialise(model: nn.Module, *inputs: Tensor, seed: int = 0) -> nn.Module:
    """Draw the weights of `model` and scale them, layer by layer, to unit output on `inputs`.

    This is the layer-sequential unit-variance initialisation of Mishkin and Matas ("All you need is a good init",
    ICLR 2016) in one pass: the hook of a layer rescales its weight and hands the rescaled output on. Batch
    normalisation takes its running statistics from the same pass.

    Parameters
    ----------
    model : nn.Module
        Changed in place and put into evaluation mode.
    *inputs : Tensor
        One calibration batch, as the model's ``forward`` takes it.
    seed : int, default 0
        Seed of the private random generator; the global generator is left alone.

    Returns
    -------
    nn.Module
        `model` itself.
    """
    generator = torch.Generator().manual_seed(seed)
    model.eval().requires_grad_(False)
    for module in model.modules():
        _draw(module, generator)
    hooks: list[Any] = []
    for module in model.modules():
        if _is_product(module):
            hooks.append(module.register_forward_hook(_unit_output))
        elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            hooks.append(module.register_forward_pre_hook(_take_statistics))
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return model


def _is_product(module: nn.Module) -> bool:
    """Whether the layer multiplies with a matrix; GPT-2's ``Conv1D`` is a linear layer that `transformers` wrote."""
    return isinstance(module, nn.Linear | _ConvNd) or type(module).__name__ == "Conv1D"


def _draw(module: nn.Module, generator: torch.Generator) -> None:
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if not isinstance(weight, Tensor):
        return
    if _is_product(module) or isinstance(module, nn.Embedding):
        weight.normal_(generator=generator)
    else:  # normalisation layers, whatever the library calls them
        weight.normal_(1.0, _SPREAD, generator=generator)
    if isinstance(bias, Tensor):
        bias.normal_(0.0, _SPREAD, generator=generator)


def _unit_output(module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    bias = module.bias
    if isinstance(bias, Tensor):
        bias = bias.reshape(-1, *[1] * len(module.kernel_size)) if isinstance(module, _ConvNd) else bias
        output = output - bias
    assert isinstance(module.weight, Tensor)
    deviation = float(output.std())
    scale = 1.0 / deviation if deviation > 0 else module.weight[0].numel() ** -0.5  # nothing but zeros came in
    module.weight.mul_(scale)
    return output * scale if bias is None else output * scale + bias


def _take_statistics(module: nn.BatchNorm1d | nn.BatchNorm2d, inputs: tuple[Tensor, ...]) -> None:
    dims = [dim for dim in range(inputs[0].dim()) if dim != 1]
    variance, mean = torch.var_mean(inputs[0], dim=dims, correction=0)
    assert module.running_mean is not None
    assert module.running_var is not None
    module.running_mean.copy_(mean)
    module.running_var.copy_(variance.clamp_min(1e-3))


def fold_batch_norms(model: nn.Module) -> nn.Module:
    """Fold each batch normalisation that follows a convolution into its weights, as one does before deployment.

    Only siblings are folded, a `BatchNorm2d` right behind a `Conv2d` in the same parent. Changes `model`, which must be
    in evaluation mode, and returns it.
    """
    for parent in model.modules():
        children = list(parent.named_children())
        for (name, convolution), (norm_name, norm) in pairwise(children):
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(parent, name, fuse_conv_bn_eval(convolution, norm))
                setattr(parent, norm_name, nn.Identity())
    return model


def layer_scales(model: nn.Module, *inputs: Tensor) -> dict[str, float]:
    """Root mean square of the output of every layer that has weights, by the layer's qualified name."""
    scales: dict[str, float] = {}

    def recorder(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def record(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            scales[name] = float(output.square().mean().sqrt())

        return record

    hooks = [
        module.register_forward_hook(recorder(name))
        for name, module in model.named_modules()
        if isinstance(getattr(module, "weight", None), Tensor)
    ]
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return scales
