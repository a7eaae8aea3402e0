"""Which values of a graph share memory: storages, joined as views, in-place results and branches are met.

A storage is a number; `Storages` keeps what is known of each in lists, because a graph has thousands. Several specs lie
in one storage: the first has its memory, views and in-place results read and write the same bytes.
"""

from collections.abc import Sequence
from math import prod

import torch
from executorch.exir.schema import DeviceType
from executorch.exir.tensor import TensorSpec

from ..allocator.errors import ExportError

__all__ = ["Storages"]

_ITEM_BYTES = {dtype: dtype.itemsize for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


class Storages:
    """Disjoint sets of specs, each with its bytes, where it was made and what was decided about it beforehand.

    Attributes
    ----------
    nbytes : list of int
        Bytes of each storage: of the largest spec in it.
    names : list of str
        Graph node that made it, bodies of control flow in front.
    members : list of list
        (spec, byte offset within the storage) of everything that lies in it.
    block : list of int
        Sequence of instructions that defines it (`timeline`).
    persistent : list of bool
        Whether it holds its contents from one call to the next.
    fixed_id : list of int or None
        Memory id that an earlier pass chose.
    device : list of (DeviceType, int)
        Where it has to be.
    """

    def __init__(self) -> None:
        self.nbytes: list[int] = []
        self.names: list[str] = []
        self.members: list[list[tuple[TensorSpec, int]]] = []
        self.block: list[int] = []
        self.persistent: list[bool] = []
        self.fixed_id: list[int | None] = []
        self.device: list[tuple[DeviceType, int]] = []
        self._parent: list[int] = []
        self._of_spec: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._parent)

    def root(self, storage: int) -> int:
        """The number that stands for a storage after joins."""
        parent = self._parent
        while parent[storage] != storage:
            parent[storage] = parent[parent[storage]]
            storage = parent[storage]
        return storage

    def of(self, spec: TensorSpec) -> int | None:
        """The storage that a spec lies in; None if it has none."""
        found = self._of_spec.get(id(spec))
        return None if found is None else self.root(found)

    def add(self, spec: TensorSpec, name: str, block: int, *, persistent: bool = False) -> int:
        """The storage of a spec, made if there is none yet."""
        known = self._of_spec.get(id(spec))
        if known is not None:
            return self.root(known)
        size = prod(spec.shape) * _ITEM_BYTES[spec.scalar_type]
        if spec.storage_base is not None:
            return self._add_inside(spec, size, name, block)
        storage = self.add_bytes(size, name, block)
        self.members[storage].append((spec, 0))
        self.persistent[storage] = persistent
        self.fixed_id[storage] = spec.mem_id
        self.device[storage] = (spec.device, spec.device_index)
        self._of_spec[id(spec)] = storage
        return storage

    def add_bytes(self, nbytes: int, name: str, block: int) -> int:
        """A storage that no spec lies in."""
        storage = len(self._parent)
        self._parent.append(storage)
        self.nbytes.append(nbytes)
        self.names.append(name)
        self.members.append([])
        self.block.append(block)
        self.persistent.append(False)
        self.fixed_id.append(None)
        self.device.append((DeviceType.CPU, 0))
        return storage

    def is_whole(self, storage: int) -> bool:
        """Whether everything in a storage begins where it begins."""
        return all(offset == 0 for _, offset in self.members[self.root(storage)])

    def mirror(self, spec: TensorSpec, storage: int) -> None:
        """Let a spec that is not emitted itself say where the storage is, for views of it that are."""
        self.members[self.root(storage)].append((spec, 0))

    def join(self, storages: Sequence[int], block: int, name: str) -> int:
        """One storage from several that are never needed at the same time, or only as one."""
        roots = list(dict.fromkeys(map(self.root, storages)))
        first = roots[0]
        for other in roots[1:]:
            self._agree(first, other, name)
            self._parent[other] = first
            self.nbytes[first] = max(self.nbytes[first], self.nbytes[other])
            self.members[first] += self.members[other]
            self.persistent[first] |= self.persistent[other]
        self.block[first] = block
        return first

    def _add_inside(self, spec: TensorSpec, size: int, name: str, block: int) -> int:
        """A spec that earlier passes put at a place inside another."""
        base, offset = spec.storage_base, spec.storage_base_offset
        assert base is not None
        storage = self.add(base, name, block)
        inside = next((at for member, at in self.members[storage] if member is base), 0) + offset
        if offset < 0 or inside + size > self.nbytes[storage]:
            raise ExportError(
                f"{name!r} lies at byte {inside} of {self.names[storage]!r} and has {size} bytes, but that has only "
                f"{self.nbytes[storage]}: correct the pass that set storage_base"
            )
        if spec.mem_id is not None and self.fixed_id[storage] not in (None, spec.mem_id):
            raise _contradiction(name, spec.mem_id, self.names[storage], self.fixed_id[storage])
        self.members[storage].append((spec, inside))
        self._of_spec[id(spec)] = storage
        return storage

    def _agree(self, one: int, other: int, name: str) -> None:
        ids = self.fixed_id[one], self.fixed_id[other]
        if None not in ids and ids[0] != ids[1]:
            raise _contradiction(self.names[one], ids[0], self.names[other], ids[1])
        if self.device[one] != self.device[other]:
            raise ExportError(
                f"{name!r} is {self.names[one]!r} or {self.names[other]!r}, which are on different devices "
                f"({self.device[one][0].name}, {self.device[other][0].name}): copy one of them"
            )
        if ids[0] is None:
            self.fixed_id[one] = ids[1]


def _contradiction(one: str, id_of_one: int | None, other: str, id_of_other: int | None) -> ExportError:
    return ExportError(
        f"{one!r} and {other!r} share memory, but earlier passes gave them the memory ids {id_of_one} and "
        f"{id_of_other}: give both the same, or none"
    )
