"""Networks of ncnn built in memory, with the same weights as a torch module.

ncnn describes a network by text (``.param``) and a flat file of weights (``.bin``). Both are small formats, so that the
comparison needs no converter: each class here writes one layer in both, and `build` hands them to ncnn from memory.
"""

import struct
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

ACTIVATIONS = {None: 0, "relu": 1, "relu6": 3, "hardswish": 6}


@dataclass
class NcnnNet:
    """The text and the weights of a network that grows layer by layer; blobs are named by number."""

    lines: list[str] = field(default_factory=list)
    weights: list[bytes] = field(default_factory=list)
    blobs: int = 0

    def layer(self, kind: str, inputs: list[str], params: str, outputs: int = 1) -> list[str]:
        """Add a layer; give the names of what it makes."""
        made = [f"b{self.blobs + i}" for i in range(outputs)]
        self.blobs += outputs
        names = " ".join(inputs + made)
        self.lines.append(f"{kind} l{len(self.lines)} {len(inputs)} {outputs} {names} {params}")
        return made

    def tensor(self, value: torch.Tensor, *, flag: bool) -> None:
        """Add weights; ncnn puts a word that says 'float32' before most of them."""
        self.weights.append((struct.pack("<I", 0) if flag else b"") + value.detach().float().numpy().tobytes())

    def conv(self, blob: str, conv: nn.Conv2d, activation: str | None = None) -> str:
        """A convolution with its bias and its activation."""
        weight, groups = conv.weight, conv.groups
        params = (
            f"0={conv.out_channels} 1={conv.kernel_size[1]} 11={conv.kernel_size[0]} 2={conv.dilation[1]} "
            f"12={conv.dilation[0]} 3={conv.stride[1]} 13={conv.stride[0]} 4={conv.padding[1]} 14={conv.padding[0]} "
            f"5={int(conv.bias is not None)} 6={weight.numel()}"
        )
        if groups > 1:
            params += f" 7={groups}"
        if activation:
            params += f" 9={ACTIVATIONS[activation]}"
            if activation == "relu6":
                params += " -23310=2,0.0,6.0"
        self.tensor(weight, flag=True)
        if conv.bias is not None:
            self.tensor(conv.bias, flag=False)
        return self.layer("ConvolutionDepthWise" if groups > 1 else "Convolution", [blob], params)[0]

    def inner_product(self, blob: str, linear: nn.Linear) -> str:
        """A linear layer on the last dimension."""
        self.tensor(linear.weight, flag=True)
        self.tensor(linear.bias, flag=False)
        return self.layer("InnerProduct", [blob], f"0={linear.out_features} 1=1 2={linear.weight.numel()}")[0]

    def text(self) -> str:
        """The ``.param`` file."""
        return "\n".join(["7767517", f"{len(self.lines)} {self.blobs}", *self.lines]) + "\n"


def _net(shape: tuple[int, ...]) -> tuple[NcnnNet, str]:
    net = NcnnNet()
    return net, net.layer("Input", [], " ".join(f"{i}={n}" for i, n in enumerate(reversed(shape))))[0]


def conv_net(conv: nn.Conv2d, shape: tuple[int, int, int], activation: str | None = None) -> NcnnNet:
    """One convolution of an image of (channels, height, width)."""
    net, x = _net(shape)
    net.conv(x, conv, activation)
    return net


def linear_net(linear: nn.Linear, rows: int) -> NcnnNet:
    """One linear layer as ``InnerProduct``."""
    net, x = _net((rows, linear.in_features) if rows > 1 else (linear.in_features,))
    net.inner_product(x, linear)
    return net


def gemm_net(linear: nn.Linear, rows: int) -> NcnnNet:
    """The same linear layer as ``Gemm`` with constant weights."""
    net, x = _net((rows, linear.in_features))
    n, k = linear.weight.shape
    net.tensor(linear.weight, flag=True)
    net.tensor(linear.bias, flag=True)
    net.layer("Gemm", [x], f"3=1 5=1 6=1 7=0 8={n} 9={k} 10=4")
    return net


def matmul_net(m: int, k: int, n: int) -> NcnnNet:
    """A product of two inputs."""
    net, a = _net((m, k))
    b = net.layer("Input", [], f"0={n} 1={k}")[0]
    net.layer("Gemm", [a, b], "")
    return net


class MobileBlock(nn.Module):
    """An inverted residual: expand, depthwise, project (batch norms folded into the weights)."""

    def __init__(self, channels: int, out: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = channels * expand
        self.expand = nn.Conv2d(channels, hidden, 1) if expand > 1 else None
        self.depthwise = nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden)
        self.project = nn.Conv2d(hidden, out, 1)
        self.residual = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.expand is None else nn.functional.relu6(self.expand(x))
        y = self.project(nn.functional.relu6(self.depthwise(y)))
        return x + y if self.residual else y


class MobileNetV2(nn.Module):
    """MobileNetV2 (1.0, 224) as it is deployed: batch norms folded."""

    PLAN = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, 1)
        blocks, channels = [], 32
        for expand, out, count, stride in self.PLAN:
            for i in range(count):
                blocks.append(MobileBlock(channels, out, stride if i == 0 else 1, expand))
                channels = out
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Conv2d(channels, 1280, 1)
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(nn.functional.relu6(self.stem(x)))
        return self.classifier(nn.functional.relu6(self.head(x)).mean((2, 3)))


def mobilenet_net(model: MobileNetV2, side: int = 224) -> NcnnNet:
    """MobileNetV2 for ncnn, with the weights of `model`."""
    net, x = _net((3, side, side))
    x = net.conv(x, model.stem, "relu6")
    for block in model.blocks:
        skip = y = x
        if block.residual:
            y, skip = net.layer("Split", [x], "", 2)
        if block.expand is not None:
            y = net.conv(y, block.expand, "relu6")
        x = net.conv(net.conv(y, block.depthwise, "relu6"), block.project)
        if block.residual:
            x = net.layer("BinaryOp", [skip, x], "0=0")[0]
    x = net.conv(x, model.head, "relu6")
    x = net.layer("Pooling", [x], "0=1 4=1")[0]
    net.inner_product(x, model.classifier)
    return net


class Ncnn:
    """A loaded network; `run` takes numpy arrays without the batch and gives the last blob.

    Parameters
    ----------
    net
        The network.
    half
        fp16 storage and arithmetic as ncnn switches them on by default, or fp32 throughout.
    vulkan
        Whether Vulkan runs it (ncnn's device 0).
    """

    def __init__(self, net: NcnnNet, *, half: bool = False, vulkan: bool = True) -> None:
        import ncnn  # type: ignore[import-untyped]  # it has no types

        self._ncnn, self._net = ncnn, ncnn.Net()
        option = self._net.opt
        option.use_vulkan_compute = vulkan
        option.num_threads = 2
        if not half:
            option.use_fp16_packed = option.use_fp16_storage = option.use_fp16_arithmetic = False
        self._weights = b"".join(net.weights)
        if self._net.load_param_mem(net.text()) or self._net.load_model_mem(self._weights):
            raise RuntimeError(f"ncnn refused the network:\n{net.text()}")
        self._inputs, self._output = self._net.input_names(), f"b{net.blobs - 1}"

    def run(self, *arrays: np.ndarray) -> np.ndarray:
        """Run once; the answer is a copy."""
        extractor = self._net.create_extractor()
        for name, array in zip(self._inputs, arrays, strict=True):
            extractor.input(name, self._ncnn.Mat(array))
        status, out = extractor.extract(self._output)
        if status:
            raise RuntimeError(f"ncnn failed with {status}")
        return np.array(out)
