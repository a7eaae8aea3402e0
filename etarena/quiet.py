"""Keep torch and ExecuTorch silent while a model is exported: their warnings are about their own insides.

What is silenced is the whole process's, and so is what exports and propagations change of torch meanwhile: one after
the other they put it back as it was, side by side each would put back what the other had made of it.
"""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet"]

NOISY_LOGGERS = ("torch", "executorch", "root", "torch.fx.experimental.symbolic_shapes", "torch._export")

_turn = threading.RLock()


@contextmanager
def quiet() -> Iterator[None]:
    """Within the block, ignore warnings and log records below errors; everything is as before afterwards.

    One thread at a time is in such a block.
    """
    with _turn, _silenced():
        yield


@contextmanager
def _silenced() -> Iterator[None]:
    loggers = [logging.getLogger(None if name == "root" else name) for name in NOISY_LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
