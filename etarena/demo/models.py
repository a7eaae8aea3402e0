"""The demo's models: real architectures from `transformers`, built from their configuration, nothing downloaded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.export import Dim

from .initialise import fold_batch_norms, initialise
from .inputs import VOCABULARY, photograph, tokens

__all__ = ["MODELS", "DemoModel", "Size"]

Size = tuple[int, ...]


@dataclass(frozen=True)
class DemoModel:
    """A model of the demo together with what it takes to export and feed it.

    Attributes
    ----------
    name : str
        Short name, unique among the models.
    title : str
        What a table calls it.
    backend : str
        ``"XNNPACK"`` or ``"CPU kernels"``.
    module : nn.Module
        Takes one tensor, returns one tensor; weights drawn and scaled.
    unit : str
        What the sizes count: ``"px"`` (height, width) or ``"tokens"`` (length).
    dynamic : dict of int to str
        Dimension of the input that may change, and its name.
    example : Size
        The size the model is exported with.
    sizes : tuple of Size
        The sizes the demo runs, growing.
    """

    name: str
    title: str
    backend: str
    module: nn.Module
    unit: str
    dynamic: dict[int, str]
    example: Size
    sizes: tuple[Size, ...]

    def input(self, size: Size, photograph_name: str = "china") -> Tensor:
        """The model's input at `size`: a photograph, or a text of that many tokens."""
        return photograph(photograph_name, *size) if self.unit == "px" else tokens(*size)

    def dynamic_shapes(self, largest: Size | None = None) -> tuple[dict[int, Any]]:
        """What `torch.export` is told: every size unbounded, or bounded by `largest` for a stock export."""
        if largest is None:
            return (dict.fromkeys(self.dynamic, Dim.DYNAMIC),)
        return ({dim: Dim.DYNAMIC(max=size) for dim, size in zip(self.dynamic, largest, strict=True)},)

    def partitioners(self) -> list[Any]:
        """The stock partitioners the model is lowered with."""
        if self.backend != "XNNPACK":
            return []
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return [XnnpackPartitioner()]


class _Pixels(nn.Module):
    """Adapter from the keyword arguments and output classes of `transformers` to tensors: images to logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=pixels).logits
        return logits


class _Tokens(nn.Module):
    """The same for token ids: to the field `result` of the model's output."""

    def __init__(self, model: nn.Module, result: str) -> None:
        super().__init__()
        self.model = model
        self.result = result

    def forward(self, ids: Tensor) -> Tensor:
        output: Tensor = getattr(self.model(input_ids=ids), self.result)
        return output


def _images(name: str, title: str, model: nn.Module, sizes: Sequence[Size]) -> DemoModel:
    module = fold_batch_norms(initialise(_Pixels(model), photograph("flower", 193, 258)))
    return DemoModel(name, title, "XNNPACK", module, "px", {2: "height", 3: "width"}, (161, 230), tuple(sizes))


def _text(name: str, title: str, model: nn.Module, result: str, sizes: Sequence[Size]) -> DemoModel:
    module = initialise(_Tokens(model, result), tokens(200))
    return DemoModel(name, title, "CPU kernels", module, "tokens", {1: "length"}, (37,), tuple(sizes))


def mobilenet() -> DemoModel:
    """MobileNetV2, an image classifier (Sandler et al., 2018) at its full width: 3.5 million weights."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    # The original's TensorFlow padding depends on whether a side is odd, which no exported graph can express.
    config = MobileNetV2Config(num_labels=1000, tf_padding=False)
    sizes = [(32, 32), (64, 96), (97, 131), (224, 224), (333, 500), (427, 640), (768, 1152), (1080, 1920), (1536, 2048)]
    return _images("mobilenet_v2", "MobileNetV2", MobileNetV2ForImageClassification(config), sizes)


def segformer() -> DemoModel:
    """SegFormer, dense prediction (Xie et al., 2021): the widths of B0, its first three stages, one block each.

    The keys of the attention are reduced twice as much a side as in the paper, or the attention of one photograph of
    several megapixels alone would take gigabytes.
    """
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        num_labels=19,
        num_encoder_blocks=3,
        depths=[1, 1, 1],
        hidden_sizes=[32, 64, 160],
        num_attention_heads=[1, 2, 5],
        sr_ratios=[16, 8, 4],
        decoder_hidden_size=128,
        attn_implementation="eager",
    )
    sizes = [(61, 125), (97, 131), (128, 192), (225, 301), (333, 500), (427, 640), (768, 1152), (1080, 1920)]
    return _images("segformer", "SegFormer", SegformerForSemanticSegmentation(config), sizes)


def bert() -> DemoModel:
    """BERT, a text encoder (Devlin et al., 2018), in its published tiny size: two layers of width 128."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=4096,
        attn_implementation="eager",
    )
    model = BertModel(config, add_pooling_layer=False)
    sizes = [(2,), (3,), (17,), (64,), (200,), (511,), (1024,), (2048,), (3000,)]
    return _text("bert", "BERT", model, "last_hidden_state", sizes)


def llama() -> DemoModel:
    """A Llama-style text decoder (Touvron et al., 2023): two layers of width 128, grouped queries, no cache."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=384,
        max_position_embeddings=8192,
        use_cache=False,
        attn_implementation="eager",
    )
    sizes = [(2,), (3,), (17,), (64,), (200,), (511,), (1024,), (2048,)]
    return _text("llama", "Llama decoder", LlamaForCausalLM(config), "logits", sizes)


MODELS: dict[str, Callable[[], DemoModel]] = {
    "mobilenet_v2": mobilenet,
    "segformer": segformer,
    "bert": bert,
    "llama": llama,
}
"""The models by name. Making one takes a second or two."""
