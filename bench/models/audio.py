"""Models that hear and models that speak."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .model import Adapter, Model, model, seeded, subject
from .text import VOCABULARY

WAVES = [(1, 400), (1, 1000), (2, 1601), (3, 3200), (2, 4801), (1, 16000)]
FREE = ({0: "batch", 1: "samples"},)
HEARING: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": [16, 16, 16],
    "conv_kernel": [10, 3, 3],
    "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "attn_implementation": "eager",
}


def wave(size: tuple[int, ...]) -> tuple[Tensor]:
    return (torch.randn(size, generator=seeded(size)),)


@model("audio")
def wav2vec2() -> Model:
    """From samples to letters (Baevski et al., 2020)."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    module = Adapter(Wav2Vec2ForCTC(Wav2Vec2Config(**HEARING)), ["input_values"], ["logits"])
    return subject(plain_weights(module), wave, FREE, WAVES)


@model("audio")
def hubert() -> Model:
    """Hidden units of speech (Hsu et al., 2021)."""
    from transformers import HubertConfig, HubertModel

    module = Adapter(HubertModel(HubertConfig(**HEARING)), ["input_values"], ["last_hidden_state"])
    return subject(plain_weights(module), wave, FREE, WAVES)


def plain_weights(module: nn.Module) -> nn.Module:
    """Replace weights that are a direction and a length by their product, as one does before deployment."""
    for layer in module.modules():
        for name in list(getattr(layer, "parametrizations", {})):
            nn.utils.parametrize.remove_parametrizations(layer, name)
    return module


@model("audio")
def whisper_encoder() -> Model:
    """From a spectrogram of fixed length to hidden states (Radford et al., 2022), any batch."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=50,
        attn_implementation="eager",
    )

    def inputs(size: tuple[int, ...]) -> tuple[Tensor]:
        return (torch.randn(*size, 16, 100, generator=seeded(size)),)

    module = Adapter(WhisperEncoder(config), ["input_features"], ["last_hidden_state"])
    return subject(module, inputs, ({0: "batch"},), [(1,), (2,), (3,), (5,), (8,), (13,)], (4,))


@model("audio")
def whisper() -> Model:
    """Encoder and decoder of Whisper, any batch and any length of the text."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=50,
        max_target_positions=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
        attn_implementation="eager",
    )

    def inputs(size: tuple[int, ...]) -> tuple[Tensor, ...]:
        generator = seeded(size)
        spectrogram = torch.randn(size[0], 16, 100, generator=generator)
        return spectrogram, torch.randint(VOCABULARY, size, generator=generator)

    names = ["input_features", "decoder_input_ids"]
    module = Adapter(WhisperForConditionalGeneration(config), names, ["logits"], use_cache=False)
    dynamic = ({0: "batch"}, {0: "batch", 1: "length"})
    return subject(module, inputs, dynamic, [(1, 1), (1, 2), (2, 7), (3, 16), (2, 65), (1, 200)], (4, 11))


@model("audio")
def spectrogram_transformer() -> Model:
    """Classification of a spectrogram of fixed length in patches (Gong et al., 2021), any batch."""
    from transformers import ASTConfig, ASTForAudioClassification

    config = ASTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_mel_bins=32,
        max_length=64,
        num_labels=5,
        attn_implementation="eager",
    )

    def inputs(size: tuple[int, ...]) -> tuple[Tensor]:
        return (torch.randn(*size, 64, 32, generator=seeded(size)),)

    module = Adapter(ASTForAudioClassification(config), ["input_values"], ["logits"])
    return subject(module, inputs, ({0: "batch"},), [(1,), (2,), (3,), (5,), (8,), (13,)], (4,))


class _Waves(nn.Module):
    """A vocoder takes frames, and gives samples as a tensor."""

    def __init__(self, vocoder: nn.Module) -> None:
        super().__init__()
        self.vocoder = vocoder

    def forward(self, mel: Tensor) -> Tensor:
        samples: Tensor = self.vocoder(mel)
        return samples


def mel(size: tuple[int, ...]) -> tuple[Tensor]:
    return (torch.randn(*size, 8, generator=seeded(size)),)


FRAMES = [(1, 1), (1, 2), (2, 7), (3, 16), (2, 33), (1, 100)]


@model("speech")
def hifi_gan() -> Model:
    """From mel frames to samples (Kong et al., 2020): transposed convolutions, dilated residual blocks."""
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    config = SpeechT5HifiGanConfig(
        model_in_dim=8,
        upsample_initial_channel=32,
        upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3, 7],
        resblock_dilation_sizes=[[1, 3], [1, 3]],
    )
    vocoder = SpeechT5HifiGan(config)
    return subject(plain_weights(_Waves(vocoder)), mel, ({0: "batch", 1: "frames"},), FRAMES, (4, 11))


class _LengthRegulator(nn.Module):
    """FastSpeech (Ren et al., 2019): letters are repeated for as many frames as the model predicts, then decoded."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.encode = nn.Conv1d(width, width, 3, padding=1)
        self.duration = nn.Linear(width, 1)
        self.decode = nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Linear(width, 8)

    def forward(self, letters: Tensor) -> tuple[Tensor, Tensor]:
        hidden = functional.relu(self.encode(self.embedding(letters).transpose(1, 2))).transpose(1, 2)[0]
        frames = (self.duration(hidden)[:, 0].exp().round().long() + 1).clamp(max=8)
        longer = hidden.repeat_interleave(frames, 0)
        decoded = functional.relu(self.decode(longer.T[None])).transpose(1, 2)
        return frames, self.head(decoded)


@model("speech", data_dependent=True)
def fast_speech() -> Model:
    """From letters to mel frames, whose number the model decides."""

    def inputs(size: tuple[int, ...]) -> tuple[Tensor]:
        return (torch.randint(VOCABULARY, (1, *size), generator=seeded(size)),)

    return subject(_LengthRegulator(), inputs, ({1: "letters"},), [(1,), (2,), (7,), (16,), (33,), (100,)], (11,))
