"""Models in their published sizes, weights drawn: what the costs of a plan are beside those of a model that is used."""

from collections.abc import Callable

from torch import nn

from etarena.demo.initialise import initialise
from etarena.demo.inputs import VOCABULARY, photograph, tokens
from etarena.demo.models import DemoModel

from .models.model import Adapter

__all__ = ["PUBLISHED"]


def bert_base() -> DemoModel:
    """BERT-base (Devlin et al., 2018): 12 layers of width 768."""
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=512, attn_implementation="eager")
    return _text("bert_base", BertModel(config, add_pooling_layer=False), "last_hidden_state")


def llama_135m() -> DemoModel:
    """The Llama-style decoder of SmolLM2-135M (Allal et al., 2025): 30 layers of width 576, no cache."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=576,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        max_position_embeddings=8192,
        use_cache=False,
        attn_implementation="eager",
    )
    return _text("llama_135m", LlamaForCausalLM(config), "logits")


def vit_small() -> DemoModel:
    """ViT-S/16 (Touvron et al., 2021): 12 layers of width 384; position embeddings are resized to the picture."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=384, num_attention_heads=6, intermediate_size=1536, num_labels=1000, attn_implementation="eager"
    )
    return _images("vit_small", ViTForImageClassification(config), interpolate_pos_encoding=True)


def segformer_b0() -> DemoModel:
    """SegFormer-B0 (Xie et al., 2021), all four stages of it."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(num_labels=150, attn_implementation="eager")
    return _images("segformer_b0", SegformerForSemanticSegmentation(config))


def _text(name: str, model: nn.Module, result: str) -> DemoModel:
    module = initialise(Adapter(model, ["input_ids"], [result]), tokens(64))
    return DemoModel(name, name, "XNNPACK", module, "tokens", {1: "length"}, (37,), ())


def _images(name: str, model: nn.Module, **fixed: object) -> DemoModel:
    module = initialise(Adapter(model, ["pixel_values"], ["logits"], **fixed), photograph("flower", 160, 224))
    return DemoModel(name, name, "XNNPACK", module, "px", {2: "height", 3: "width"}, (128, 192), ())


PUBLISHED: dict[str, Callable[[], DemoModel]] = {
    "bert_base": bert_base,
    "llama_135m": llama_135m,
    "vit_small": vit_small,
    "segformer_b0": segformer_b0,
}
"""The models by name."""
