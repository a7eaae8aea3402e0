"""Storages of a run: which value owns each, and from which operator to which it is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.multiprocessing.reductions import StorageWeakRef

if TYPE_CHECKING:
    import torch

__all__ = ["Storages"]


class Storages:
    """The storages that tensors of a run are on, watched without being held.

    A storage is over before operator ``p`` if nothing holds it when ``p`` begins: what Python variables, closures or
    autograd keep counts as held, as it does in a real run.
    """

    def __init__(self) -> None:
        self._live: dict[int, tuple[int, StorageWeakRef]] = {}
        self.ends: dict[int, int] = {}

    def owner(self, tensor: torch.Tensor) -> int | None:
        """The value that was first on the storage of a tensor; None if the storage is new."""
        entry = self._live.get(self._key(tensor))
        return None if entry is None else entry[0]

    def add(self, tensor: torch.Tensor, value: int) -> Any:
        """Note that a value owns a new storage; gives its bytes, which may be symbolic."""
        storage = tensor.untyped_storage()
        self._live[storage._cdata] = (value, StorageWeakRef(storage))
        return storage.nbytes()

    def bytes_of(self, tensor: torch.Tensor) -> Any:
        """Bytes of the storage of a tensor as they are now, which may be symbolic."""
        return tensor.untyped_storage().nbytes()

    def sweep(self, position: int) -> None:
        """Note which storages are over when the operator at `position` begins."""
        over = [key for key, (_, reference) in self._live.items() if reference.expired()]
        for key in over:
            value, _ = self._live.pop(key)
            self.ends[value] = position

    @staticmethod
    def _key(tensor: torch.Tensor) -> int:
        return tensor.untyped_storage()._cdata
