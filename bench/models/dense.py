"""Networks that answer for every pixel: segmentation, depth, super-resolution, diffusion."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from .classification import BATCHES, FREE, PICTURES
from .model import Adapter, Model, image, model, seeded, subject

SQUARES = [(1, 32, 32), (1, 32, 64), (2, 64, 32), (1, 64, 64), (2, 64, 96), (1, 128, 96)]


@model("segmentation")
def segformer() -> Model:
    """A pyramid of transformers with a light decoder (Xie et al., 2021)."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        num_labels=7,
        num_encoder_blocks=3,
        depths=[1, 1, 1],
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[1, 2, 3],
        sr_ratios=[8, 4, 2],
        decoder_hidden_size=32,
        attn_implementation="eager",
    )
    return subject(
        Adapter(SegformerForSemanticSegmentation(config), ["pixel_values"], ["logits"]), image, FREE, PICTURES
    )


@model("segmentation")
def upernet() -> Model:
    """A pooling pyramid over a ConvNeXt backbone (Xiao et al., 2018), resized back to the picture."""
    from transformers import ConvNextConfig, UperNetConfig, UperNetForSemanticSegmentation

    backbone = ConvNextConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]
    )
    config = UperNetConfig(
        backbone_config=backbone, hidden_size=16, pool_scales=[1, 2], use_auxiliary_head=False, num_labels=5
    )
    module = Adapter(UperNetForSemanticSegmentation(config), ["pixel_values"], ["logits"])
    return subject(
        module, image, FREE, [(1, 64, 64), (1, 65, 79), (2, 64, 96), (1, 96, 80), (1, 97, 113), (1, 128, 96)]
    )


@model("segmentation")
def mask2former() -> Model:
    """Masks by queries over a Swin backbone with deformable attention (Cheng et al., 2022), any batch."""
    from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, SwinConfig

    backbone = SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
        window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = Mask2FormerConfig(
        backbone_config=backbone,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=32,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        dim_feedforward=32,
        num_queries=5,
        num_labels=4,
    )
    results = ["class_queries_logits", "masks_queries_logits"]
    module = Adapter(Mask2FormerForUniversalSegmentation(config), ["pixel_values"], results)
    return subject(module, image, ({0: "batch"},), BATCHES, (4, 64, 64))


class _Block(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class _UNet(nn.Module):
    """U-Net (Ronneberger et al., 2015); pictures of odd sides are upsampled to the size of the skip connection."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 24)) -> None:
        super().__init__()
        pairs = list(zip((3, *widths[:-1]), widths, strict=True))
        self.down = nn.ModuleList(_Block(*pair) for pair in pairs)
        self.up = nn.ModuleList(_Block(low + high, high) for high, low in pairwise(widths))
        self.head = nn.Conv2d(widths[0], 4, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        skipped: list[Tensor] = []
        for block in self.down:
            pixels = block(pixels if not skipped else functional.max_pool2d(pixels, 2))
            skipped.append(pixels)
        for block, skip in zip(reversed(self.up), reversed(skipped[:-1]), strict=True):
            pixels = functional.interpolate(pixels, skip.shape[2:], mode="bilinear", align_corners=False)
            pixels = block(torch.cat([pixels, skip], 1))
        logits: Tensor = self.head(pixels)
        return logits


@model("segmentation")
def unet() -> Model:
    """A U-Net of three levels."""
    return subject(_UNet(), image, FREE, PICTURES)


@model("depth")
def dpt() -> Model:
    """Dense prediction from a vision transformer (Ranftl et al., 2021), any batch."""
    from transformers import DPTConfig, DPTForDepthEstimation

    config = DPTConfig(
        image_size=64,
        patch_size=16,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=64,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16,
        attn_implementation="eager",
    )
    module = Adapter(DPTForDepthEstimation(config), ["pixel_values"], ["predicted_depth"])
    return subject(module, image, ({0: "batch"},), BATCHES, (4, 64, 64))


class _SuperResolution(nn.Module):
    """ESPCN (Shi et al., 2016): three convolutions and a pixel shuffle."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(16, 3 * 9, 3, padding=1),
            nn.PixelShuffle(3),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        larger: Tensor = self.layers(pixels)
        return larger


@model("super-resolution")
def espcn() -> Model:
    """Sub-pixel convolution to three times the size."""
    return subject(_SuperResolution(), image, FREE, PICTURES)


class _Denoiser(nn.Module):
    """The noise predictor of a diffusion model (Ho et al., 2020): residual blocks told the time, attention inside."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.up = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.last = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, pixels: Tensor, time: Tensor) -> Tensor:
        frequencies = torch.exp(torch.arange(self.width // 2) * -0.5)
        angles = time[:, None] * frequencies
        told = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        fine = functional.silu(self.first(pixels) + told[:, :, None, None])
        coarse = self.norm(self.down(fine))
        rows = coarse.flatten(2).transpose(1, 2)
        rows = rows + self.attention(rows, rows, rows, need_weights=False)[0]
        coarse = rows.transpose(1, 2).reshape(coarse.shape)
        noise: Tensor = self.last(torch.cat([fine, self.up(coarse)], 1))
        return noise


@model("diffusion")
def denoiser() -> Model:
    """One step of a diffusion model; sides are multiples of two."""

    def inputs(size: tuple[int, ...]) -> tuple[Tensor, ...]:
        return (*image(size), torch.rand(size[0], generator=seeded(size)) * 10)

    dynamic = ({0: "batch", 2: "height", 3: "width"}, {0: "batch"})
    sizes = [(1, 8, 8), (1, 16, 24), (2, 32, 16), (3, 32, 48), (2, 64, 48), (1, 64, 96)]
    return subject(_Denoiser(), inputs, dynamic, sizes, (4, 20, 26))
