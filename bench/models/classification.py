"""Image classifiers."""

from collections.abc import Sequence

from torch import nn

from .model import Adapter, Model, Size, image, model, subject

PICTURES = [(1, 32, 32), (1, 33, 47), (2, 40, 64), (3, 64, 56), (2, 81, 97), (1, 128, 160)]
BATCHES = [(1, 64, 64), (2, 64, 64), (3, 64, 64), (5, 64, 64), (8, 64, 64), (13, 64, 64)]
FREE = ({0: "batch", 2: "height", 3: "width"},)


def classifier(network: nn.Module, sizes: Sequence[Size] = PICTURES, **fixed: object) -> Model:
    """A network from pixels to logits, with any batch, height and width."""
    return subject(Adapter(network, ["pixel_values"], ["logits"], **fixed), image, FREE, sizes)


def batch_classifier(network: nn.Module) -> Model:
    """The same for a network whose picture size is part of its weights: any batch of 64 x 64 pixels."""
    module = Adapter(network, ["pixel_values"], ["logits"])
    return subject(module, image, ({0: "batch"},), BATCHES, (4, 64, 64))


@model("image classification")
def mobilenet_v2() -> Model:
    """Inverted residuals with depthwise convolutions (Sandler et al., 2018) at 0.35 of the width."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    # The original's TensorFlow padding depends on whether a side is odd, which no exported graph can express.
    config = MobileNetV2Config(depth_multiplier=0.35, num_labels=10, tf_padding=False)
    return classifier(MobileNetV2ForImageClassification(config))


@model("image classification")
def resnet() -> Model:
    """Residual bottlenecks (He et al., 2015), one a stage."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=16, hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 2, 1], num_labels=10)
    return classifier(ResNetForImageClassification(config))


@model("image classification")
def regnet() -> Model:
    """Grouped convolutions with squeeze and excitation (Radosavovic et al., 2020)."""
    from transformers import RegNetConfig, RegNetForImageClassification

    config = RegNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 1, 1], groups_width=16, num_labels=10
    )
    return classifier(RegNetForImageClassification(config))


@model("image classification")
def efficientnet() -> Model:
    """EfficientNet-B0's blocks (Tan and Le, 2019) at a quarter of the width."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(width_coefficient=0.25, depth_coefficient=0.5, hidden_dim=320, num_labels=10)
    return classifier(EfficientNetForImageClassification(config))


@model("image classification")
def convnext() -> Model:
    """Depthwise 7 x 7 convolutions with layer norm (Liu et al., 2022)."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], num_labels=10)
    return classifier(ConvNextForImageClassification(config))


@model("image classification")
def convnext_v2() -> Model:
    """ConvNeXt with global response normalisation (Woo et al., 2023)."""
    from transformers import ConvNextV2Config, ConvNextV2ForImageClassification

    config = ConvNextV2Config(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], num_labels=10)
    return classifier(ConvNextV2ForImageClassification(config))


@model("image classification")
def poolformer() -> Model:
    """Pooling in place of attention (Yu et al., 2022)."""
    from transformers import PoolFormerConfig, PoolFormerForImageClassification

    config = PoolFormerConfig(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], num_labels=10)
    return classifier(PoolFormerForImageClassification(config))


@model("image classification")
def vit() -> Model:
    """A vision transformer (Dosovitskiy et al., 2021) whose position embeddings are resized to the picture."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=64,
        patch_size=8,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        num_labels=10,
        attn_implementation="eager",
    )
    sizes = [(1, 32, 32), (1, 40, 48), (2, 40, 64), (3, 64, 56), (2, 80, 96), (1, 128, 160)]
    return classifier(ViTForImageClassification(config), sizes, interpolate_pos_encoding=True)


@model("image classification")
def swin() -> Model:
    """Attention in shifted windows (Liu et al., 2021), any batch."""
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=24,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        num_labels=10,
        attn_implementation="eager",
    )
    return batch_classifier(SwinForImageClassification(config))


@model("image classification")
def mobilevit() -> Model:
    """Convolutions and attention over unfolded patches (Mehta and Rastegari, 2022), any batch."""
    from transformers import MobileViTConfig, MobileViTForImageClassification

    config = MobileViTConfig(
        image_size=64,
        hidden_sizes=[24, 32, 48],
        neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 96],
        num_attention_heads=4,
        num_labels=10,
    )
    return batch_classifier(MobileViTForImageClassification(config))


@model("image classification")
def levit() -> Model:
    """Attention that shrinks the picture (Graham et al., 2021), any batch."""
    from transformers import LevitConfig, LevitForImageClassification

    config = LevitConfig(
        image_size=64,
        hidden_sizes=[32, 48, 64],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
        num_labels=10,
    )
    return batch_classifier(LevitForImageClassification(config))
