"""A check of a plan before it is used, by a sweep over positions: what is alive together must not overlap.

It takes the lives as they are; `verifier` questions those as well, by the instructions of the finished program.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from ..allocator.errors import PlanError
from .placing import Request

__all__ = ["check_places"]


def check_places(requests: Iterable[Request], sizes: Mapping[int, int]) -> None:
    """Raise if two live storages of a pool overlap, or one does not lie within its pool.

    Parameters
    ----------
    requests : iterable of Request
        With their pools and offsets.
    sizes : mapping of int to int
        Bytes of each pool.

    Raises
    ------
    PlanError
        With what is wrong.
    """
    events = []
    for number, request in enumerate(kept := [request for request in requests if request.nbytes]):
        if request.offset < 0 or request.offset + request.nbytes > sizes[request.pool]:
            raise PlanError(
                f"{request.name!r} ends at byte {request.offset + request.nbytes} of memory id {request.pool}, which "
                f"has {sizes[request.pool]} bytes"
            )
        for first, last in request.pieces:
            events.append((first, 1, number))
            events.append((last, 0, number))
    events.sort()
    alive: dict[int, list[tuple[int, int, int]]] = {}
    for position, starts, number in events:
        request = kept[number]
        entry = (request.offset, request.offset + request.nbytes, number)
        pool = alive.setdefault(request.pool, [])
        if not starts:
            pool.pop(bisect_left(pool, entry))
            continue
        at = bisect_left(pool, entry)
        for neighbour in pool[max(at - 1, 0) : at + 1]:
            if neighbour[0] < entry[1] and entry[0] < neighbour[1]:
                raise PlanError(
                    f"{kept[neighbour[2]].name!r} and {request.name!r} are both alive at position {position} and share "
                    f"bytes from {max(neighbour[0], entry[0])} of memory id {request.pool}"
                )
        insort(pool, entry)
