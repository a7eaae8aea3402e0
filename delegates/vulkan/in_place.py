"""Results that take the memory of an operand: where it is read element by element, and by nothing else afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from .operators.call import Dispatch

__all__ = ["share_in_place"]


def share_in_place(
    dispatches: Sequence[Dispatch],
    root_of: Callable[[int], int],
    inner: Callable[[int], bool],
    outputs: Collection[int],
    join: Callable[[int, int], None],
) -> None:
    """Let results of dispatches lie where one of their `replaceable` operands lies.

    Parameters
    ----------
    dispatches
        In order.
    root_of
        Which tensor's bytes a tensor has; follows what `join` did.
    inner
        Whether a tensor is scratch.
    outputs
        Tensors that are written where the caller wants them: what is inner can lie there before.
    join
        Called with two such roots: the first has the bytes of the second from now on.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, dispatch in enumerate(dispatches):
        for tensor in (*dispatch.reads, *dispatch.writes):
            root = root_of(tensor.number)
            first.setdefault(root, step)
            last[root] = step
    for step, dispatch in enumerate(dispatches):
        for operand in dispatch.replaceable:
            mine, result = root_of(operand.number), root_of(dispatch.writes[0].number)
            if mine == result or not inner(mine) or last[mine] != step or first[result] != step:
                continue
            if inner(result):
                join(result, mine)
                last[mine] = last[result]
            elif result in outputs:
                join(mine, result)
                first[result] = first[mine]
            else:
                continue
            break
