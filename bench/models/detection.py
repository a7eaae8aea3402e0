"""Object detectors, from transformers with queries to boxes that are sorted out by their overlap."""

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional

from .classification import BATCHES, FREE
from .model import Adapter, Model, image, model, seeded, subject

RESULTS = ["logits", "pred_boxes"]
PICTURES = [(1, 64, 64), (1, 65, 79), (2, 64, 96), (1, 96, 80), (1, 97, 113), (1, 128, 160)]


@model("detection")
def detr() -> Model:
    """Boxes by queries over a ResNet (Carion et al., 2020)."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    config = DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=backbone,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=6,
        num_labels=5,
        attn_implementation="eager",
    )
    return subject(Adapter(DetrForObjectDetection(config), ["pixel_values"], RESULTS), image, FREE, PICTURES)


@model("detection")
def yolos() -> Model:
    """Detection tokens in a vision transformer (Fang et al., 2021)."""
    from transformers import YolosConfig, YolosForObjectDetection

    config = YolosConfig(
        image_size=[64, 64],
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_detection_tokens=6,
        num_labels=5,
        attn_implementation="eager",
    )
    sizes = [(1, 32, 32), (1, 40, 48), (2, 40, 64), (3, 64, 56), (2, 80, 96), (1, 128, 160)]
    return subject(Adapter(YolosForObjectDetection(config), ["pixel_values"], RESULTS), image, FREE, sizes)


@model("detection")
def rt_detr() -> Model:
    """A hybrid encoder and deformable attention (Zhao et al., 2023), any batch of one picture size."""
    from transformers import RTDetrConfig, RTDetrForObjectDetection, RTDetrResNetConfig
    from transformers.models.rt_detr import modeling_rt_detr

    # The model takes the batch as len() of a tensor, which Python makes a number: no batch but the example's would run.
    modeling_rt_detr.len = lambda value: value.shape[0] if isinstance(value, Tensor) else len(value)
    backbone = RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[16, 24, 32, 48],
        depths=[1, 1, 1, 1],
        layer_type="bottleneck",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = RTDetrConfig(
        backbone_config=backbone,
        encoder_in_channels=[24, 32, 48],
        encoder_hidden_dim=32,
        encoder_ffn_dim=32,
        encoder_attention_heads=4,
        d_model=32,
        num_queries=8,
        decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=32,
        decoder_layers=2,
        decoder_attention_heads=4,
        hidden_expansion=0.5,
        num_labels=5,
        anchor_image_size=[64, 64],
        attn_implementation="eager",
    )
    module = Adapter(RTDetrForObjectDetection(config), ["pixel_values"], RESULTS)
    return subject(module, image, ({0: "batch"},), BATCHES, (4, 64, 64))


def overlaps(boxes: Tensor) -> Tensor:
    """Intersection over union of every pair of boxes; a box is (left, top, right, bottom)."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return shared / (area[:, None] + area[None, :] - shared)


class _Anchors(nn.Module):
    """A convolutional head that gives one box and one score a cell, as single-stage detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU())
        self.head = nn.Conv2d(16, 5, 1)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        answers = self.head(self.body(pixels))[0]
        rows = torch.arange(answers.shape[1]) * 4.0
        columns = torch.arange(answers.shape[2]) * 4.0
        centre = torch.stack([columns[None, :].expand(answers.shape[1:]), rows[:, None].expand(answers.shape[1:])], 2)
        extent = functional.softplus(answers[:4].permute(1, 2, 0)) * 4 + 1
        boxes = torch.cat([centre - extent[..., :2], centre + extent[..., 2:]], 2).flatten(0, 1)
        return boxes, answers[4].flatten().sigmoid()


class _FastSuppression(nn.Module):
    """Likely boxes that no better box covers: non-maximum suppression as a matrix (Bolya et al., 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors = _Anchors()

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = self.anchors(pixels)
        likely = scores > 0.5
        boxes, scores = boxes[likely], scores[likely]
        order = scores.argsort(descending=True)
        boxes, scores = boxes[order], scores[order]
        kept = overlaps(boxes).triu(1).amax(0) < 0.4
        return boxes[kept], scores[kept]


class _GreedySuppression(nn.Module):
    """The sequential form: in the order of scores, each kept box removes what it covers."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors = _Anchors()

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = self.anchors(pixels)
        scores, order = scores.sort(descending=True)
        boxes = boxes[order]
        covers = overlaps(boxes).triu(1) > 0.4
        alive = scores > 0.5

        def unfinished(at: Tensor, _alive: Tensor) -> Tensor:
            return at < scores.shape[0]

        def suppress(at: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
            here = torch.arange(alive.shape[0]) == at
            removed = (covers & (here & alive)[:, None]).any(0)
            return at + 1, alive & ~removed

        _, alive = while_loop(unfinished, suppress, (torch.tensor(0), alive))
        return boxes[alive], scores[alive]


ONE_PICTURE = ({2: "height", 3: "width"},)
SMALL = [(1, 16, 16), (1, 20, 33), (1, 32, 32), (1, 47, 39), (1, 64, 48), (1, 64, 80)]


@model("detection", data_dependent=True)
def fast_suppression() -> Model:
    """A detector whose number of boxes depends on the picture."""
    return subject(_FastSuppression(), image, ONE_PICTURE, SMALL, (1, 24, 40))


@model("detection", data_dependent=True)
def greedy_suppression() -> Model:
    """The same with suppression in a loop."""
    return subject(_GreedySuppression(), image, ONE_PICTURE, SMALL, (1, 24, 40))


class _MaskHead(nn.Module):
    """Mask R-CNN's second half (He et al., 2017): likely proposals are cropped to 7 x 7 and each gets a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU())
        self.score = nn.Linear(4, 1)
        self.mask = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 8, 2, 2), nn.ReLU(), nn.Conv2d(8, 1, 1)
        )

    def forward(self, pixels: Tensor, proposals: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(pixels)[0]
        likely = self.score(proposals)[:, 0] > 0
        boxes = proposals[likely]
        return boxes, self.mask(crop(features, boxes, 7)).sigmoid()


def crop(features: Tensor, boxes: Tensor, side: int) -> Tensor:
    """Bilinear samples of `features` (channels, height, width) on a grid inside each box, given as fractions."""
    channels, height, width = features.shape
    steps = (torch.arange(side) + 0.5) / side
    x = (boxes[:, :1] + (boxes[:, 2:3] - boxes[:, :1]) * steps) * (width - 1)
    y = (boxes[:, 1:2] + (boxes[:, 3:] - boxes[:, 1:2]) * steps) * (height - 1)
    left, top = x.floor(), y.floor()
    flat = features.flatten(1)
    total = torch.zeros(())
    for down in (0, 1):
        for right in (0, 1):
            rows, columns = (top + down).clamp(max=height - 1), (left + right).clamp(max=width - 1)
            weight = (1 - (y - top - down).abs())[:, :, None] * (1 - (x - left - right).abs())[:, None, :]
            index = (rows[:, :, None] * width + columns[:, None, :]).long().flatten()
            total = total + flat[:, index].reshape(channels, -1, side, side) * weight
    return total.transpose(0, 1)


@model("instance segmentation", data_dependent=True)
def mask_head() -> Model:
    """Proposals in, as many masks out as there are likely ones."""

    def inputs(size: tuple[int, ...]) -> tuple[Tensor, ...]:
        height, width, count = size
        corners = torch.rand(count, 2, 2, generator=seeded(size)).sort(1).values
        return (*image((1, height, width)), corners.flatten(1))

    sizes = [(16, 16, 4), (20, 33, 9), (32, 32, 17), (47, 39, 30), (64, 48, 50), (64, 80, 100)]
    return subject(_MaskHead(), inputs, ({2: "height", 3: "width"}, {0: "proposals"}), sizes, (24, 40, 12))
