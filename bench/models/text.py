"""Text encoders and models from text to text."""

from typing import Any

import torch
from torch import Tensor, nn

from .model import Adapter, Model, ids, model, seeded, subject

VOCABULARY = 97
TEXTS = [(1, 1), (1, 2), (2, 7), (3, 16), (2, 65), (1, 200)]
FREE = ({0: "batch", 1: "length"},)
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "attn_implementation": "eager",
}


def encoder(network: nn.Module) -> Model:
    """A network from token ids to hidden states, any batch and length."""
    module = Adapter(network, ["input_ids"], ["last_hidden_state"])
    return subject(module, ids(VOCABULARY), FREE, TEXTS, (4, 11))


@model("text encoder")
def bert() -> Model:
    """Bidirectional transformer (Devlin et al., 2018)."""
    from transformers import BertConfig, BertModel

    return encoder(BertModel(BertConfig(**SMALL), add_pooling_layer=False))


@model("text encoder")
def roberta() -> Model:
    """BERT whose positions are counted past padding (Liu et al., 2019)."""
    from transformers import RobertaConfig, RobertaModel

    return encoder(RobertaModel(RobertaConfig(**SMALL), add_pooling_layer=False))


@model("text encoder")
def distilbert() -> Model:
    """A distilled BERT (Sanh et al., 2019)."""
    from transformers import DistilBertConfig, DistilBertModel

    config = DistilBertConfig(
        vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64, attn_implementation="eager"
    )
    return encoder(DistilBertModel(config))


@model("text encoder")
def albert() -> Model:
    """Layers that share weights (Lan et al., 2019)."""
    from transformers import AlbertConfig, AlbertModel

    return encoder(AlbertModel(AlbertConfig(embedding_size=16, **SMALL), add_pooling_layer=False))


@model("text encoder")
def deberta_v2() -> Model:
    """Disentangled attention to relative positions (He et al., 2021)."""
    from transformers import DebertaV2Config, DebertaV2Model

    config = DebertaV2Config(
        **SMALL | {"attn_implementation": None},
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=16,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
    )
    return encoder(DebertaV2Model(config))


@model("text encoder")
def mpnet() -> Model:
    """Relative positions in buckets (Song et al., 2020)."""
    from transformers import MPNetConfig, MPNetModel

    return encoder(MPNetModel(MPNetConfig(**SMALL), add_pooling_layer=False))


@model("text encoder")
def modernbert() -> Model:
    """Rotary positions, local and global attention, gated units (Warner et al., 2024)."""
    from transformers import ModernBertConfig, ModernBertModel

    config = ModernBertConfig(**SMALL, local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return encoder(ModernBertModel(config))


@model("text encoder")
def squeezebert() -> Model:
    """Grouped convolutions of width one in place of linear layers (Iandola et al., 2020)."""
    from transformers import SqueezeBertConfig, SqueezeBertModel

    config = SqueezeBertConfig(**SMALL | {"attn_implementation": None}, embedding_size=32)
    return encoder(SqueezeBertModel(config))


def t5_config() -> Any:
    from transformers import T5Config

    return T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        attn_implementation="eager",
        use_cache=False,
    )


@model("text encoder")
def t5_encoder() -> Model:
    """The encoder of T5 (Raffel et al., 2020): relative positions in logarithmic buckets."""
    from transformers import T5EncoderModel

    return encoder(T5EncoderModel(t5_config()))


def two_texts(size: tuple[int, ...]) -> tuple[Tensor, ...]:
    batch, source, target = size
    return tuple(torch.randint(VOCABULARY, (batch, n), generator=seeded((*size, n))) for n in (source, target))


TWO_FREE = ({0: "batch", 1: "source"}, {0: "batch", 1: "target"})
PAIRS = [(1, 1, 1), (1, 2, 5), (2, 7, 3), (3, 16, 20), (2, 65, 33), (1, 200, 120)]


@model("text to text")
def t5() -> Model:
    """Encoder and decoder of T5."""
    from transformers import T5ForConditionalGeneration

    network = T5ForConditionalGeneration(t5_config())
    module = Adapter(network, ["input_ids", "decoder_input_ids"], ["logits"], use_cache=False)
    return subject(module, two_texts, TWO_FREE, PAIRS, (4, 11, 9))


@model("text to text")
def bart() -> Model:
    """A denoising encoder and decoder (Lewis et al., 2019)."""
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=512,
        attn_implementation="eager",
    )
    network = BartForConditionalGeneration(config)
    module = Adapter(network, ["input_ids", "decoder_input_ids"], ["logits"], use_cache=False)
    return subject(module, two_texts, TWO_FREE, PAIRS, (4, 11, 9))
