"""Which pools there are, and what is bound to one: by an earlier pass, by its device, or by preference."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from executorch.exir.schema import DeviceType

from ..allocator.errors import ExportError
from .lives import Pieces
from .options import FIRST_POOL, Candidate, Options
from .placing import Request
from .storages import Storages

__all__ = ["CPU", "Pools", "choose_pools", "requests_of"]

CPU = (DeviceType.CPU, 0)


@dataclass
class Pools:
    """Bytes of each pool, devices of those outside the CPU, and the storages that may be in one pool only."""

    limits: dict[int, int | None]
    devices: dict[int, tuple[DeviceType, int]] = field(default_factory=dict)
    bound: dict[int, int] = field(default_factory=dict)


def choose_pools(storages: Storages, pieces: Pieces, options: Options, *, separate_devices: bool) -> Pools:
    """Find the pools that a method needs.

    Raises
    ------
    ExportError
        An earlier pass gave a value a memory id that is not among the pools, or one on the CPU to what is elsewhere.
    """
    pools = Pools(dict(options.pools))
    is_open = options.pools == {FIRST_POOL: None}
    for storage in pieces:
        fixed = storages.fixed_id[storage]
        if fixed is not None:
            if fixed not in options.pools and not is_open:
                raise ExportError(
                    f"an earlier pass gave {storages.names[storage]!r} memory id {fixed}, but `pools` has "
                    f"{', '.join(map(str, options.pools))}: add it there"
                )
            pools.limits.setdefault(fixed, None)
            pools.bound[storage] = fixed
    if separate_devices:
        _add_devices(pools, storages, pieces)
    return pools


def _add_devices(pools: Pools, storages: Storages, pieces: Pieces) -> None:
    """A pool for each device, behind all others, and everything that is there in it."""
    keys = sorted({storages.device[storage] for storage in pieces} - {CPU}, key=lambda key: (key[0].value, key[1]))
    pools.devices = dict(enumerate(keys, max(pools.limits) + 1))
    pools.limits.update(dict.fromkeys(pools.devices, None))
    own = {key: pool for pool, key in pools.devices.items()}
    for storage in pieces:
        device = storages.device[storage]
        if device == CPU:
            continue
        if storage in pools.bound:
            raise ExportError(
                f"{storages.names[storage]!r} is on {device[0].name}, which gets a pool of its own, but an earlier "
                f"pass gave it memory id {pools.bound[storage]}: leave it without one"
            )
        pools.bound[storage] = own[device]


def requests_of(storages: Storages, pieces: Pieces, options: Options, bound: Mapping[int, int]) -> dict[int, Request]:
    """What needs a place, and the pools that it may be in, by storage."""
    alignment, everywhere = options.alignment, tuple(options.pools)
    requests = {}
    for storage, ranges in pieces.items():
        name, nbytes = storages.names[storage], storages.nbytes[storage]
        choices = everywhere
        if storage in bound:
            choices = (bound[storage],)
        elif options.prefer:
            choices = options.choices(Candidate(name, nbytes, ranges[-1][1] - ranges[0][0]))
        requests[storage] = Request(name, -(-nbytes // alignment) * alignment, ranges, choices)
    return requests
