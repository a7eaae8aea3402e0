"""Real inputs that need no download: the photographs of scikit-learn and the text of this project's README."""

import re
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from ..allocator.errors import InputError

__all__ = ["PHOTOGRAPHS", "VOCABULARY", "photograph", "readme_text", "tokenise", "tokens"]

PHOTOGRAPHS = ("china", "flower")
"""Names of the photographs; both are 427 x 640 pixels."""

VOCABULARY = 512
"""Number of token ids the tokeniser can give."""

_WORD = re.compile(r"\w+|[^\w\s]")


@lru_cache
def _normalised(name: str) -> Tensor:
    from sklearn.datasets import load_sample_image

    pixels = torch.from_numpy(load_sample_image(f"{name}.jpg").copy())
    pixels = pixels.permute(2, 0, 1).unsqueeze(0).float()
    variance, mean = torch.var_mean(pixels, dim=(2, 3), keepdim=True)
    return (pixels - mean) / variance.sqrt()


def photograph(name: str, height: int, width: int) -> Tensor:
    """One of the two photographs at a given size.

    Parameters
    ----------
    name : str
        One of `PHOTOGRAPHS`.
    height, width : int
        Size in pixels, from 1; the photograph is stretched to it.

    Returns
    -------
    Tensor
        float32, contiguous, shape ``(1, 3, height, width)``; each colour plane has mean zero and deviation one.

    Raises
    ------
    InputError
        If there is no such photograph or a size is below 1.
    """
    if name not in PHOTOGRAPHS:
        raise InputError(f"there is no photograph {name!r}; choose one of {', '.join(PHOTOGRAPHS)}")
    if height < 1 or width < 1:
        raise InputError(f"a photograph needs at least one pixel a side, not {height} x {width}")
    pixels = _normalised(name)
    smaller = height < pixels.shape[2] or width < pixels.shape[3]
    resized = functional.interpolate(pixels, (height, width), mode="bilinear", antialias=smaller)
    return resized.clone(memory_format=torch.contiguous_format)


@lru_cache
def readme_text() -> str:
    """The project's README: from the source tree, or from the metadata of the installed package."""
    path = Path(__file__).parents[2] / "README.md"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    return str(metadata.metadata("etarena")["Description"])


def tokenise(text: str) -> list[int]:
    """Words and punctuation as ids in ``[0, VOCABULARY)``.

    An id is a polynomial hash of the word's characters, so that it is the same on every machine; words may share one.
    """
    return [_word_id(word) for word in _WORD.findall(text.lower())]


def _word_id(word: str) -> int:
    value = 0
    for character in word:
        value = (value * 257 + ord(character)) % 1_000_003
    return value % VOCABULARY


def tokens(length: int) -> Tensor:
    """The first `length` tokens of the README, which is read again from its start when it ends.

    Returns
    -------
    Tensor
        int64, shape ``(1, length)``.

    Raises
    ------
    InputError
        If `length` is below 1.
    """
    if length < 1:
        raise InputError(f"a text needs at least one token, not {length}")
    ids = tokenise(readme_text())
    repeats = -(-length // len(ids))
    return torch.tensor([(ids * repeats)[:length]])
