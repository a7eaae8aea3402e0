"""Subjects are made once for all measurements of a session."""

from functools import lru_cache

import pytest

from bench.subjects import SIZES, Subject


@lru_cache
def _subject(name: str) -> Subject:
    return Subject(name)


@pytest.fixture(params=list(SIZES))
def subject(request: pytest.FixtureRequest) -> Subject:
    return _subject(request.param)


@pytest.fixture(params=["embedding_linear", "mobilenet_v2"])
def small_subject(request: pytest.FixtureRequest) -> Subject:
    """A model that is fast at many small sizes: one on the CPU kernels, one on XNNPACK."""
    return _subject(request.param)
