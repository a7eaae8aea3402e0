"""Small models of many families, each with its real structure, seeded weights and no bound on its sizes."""

from . import audio, breaks, classification, decoders, dense, detection, experts, recurrent, structured, text
from .model import MODELS, Model, Recipe

__all__ = [
    "MODELS",
    "Model",
    "Recipe",
    "audio",
    "breaks",
    "classification",
    "decoders",
    "dense",
    "detection",
    "experts",
    "recurrent",
    "structured",
    "text",
]
