"""Run times of several ways to do one thing, taken in turn so that the machine's moods meet all of them."""

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median

__all__ = ["in_turn", "median_ratio", "rounds_within"]


def in_turn(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[int]]:
    """Time each way once a round, in an order that rotates from round to round.

    Parameters
    ----------
    ways : mapping of str to callable
        What is timed; each is called twice beforehand, untimed.
    rounds : int
        Number of samples of each.

    Returns
    -------
    dict of str to list of int
        Nanoseconds of each call, in the order of the rounds.
    """
    names = list(ways)
    samples: dict[str, list[int]] = {name: [] for name in names}
    for name in names * 2:
        ways[name]()
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            start = turn % len(names)
            for name in names[start:] + names[:start]:
                call = ways[name]
                before = time.perf_counter_ns()
                result = call()
                samples[name].append(time.perf_counter_ns() - before)
                del result
    finally:
        gc.enable()
    return samples


def median_ratio(samples: Mapping[str, list[int]], name: str, other: str) -> float:
    """Median over the rounds of the one's time divided by the other's in the same round."""
    return median(one / two for one, two in zip(samples[name], samples[other], strict=True))


def rounds_within(call: Callable[[], object], seconds: float, least: int = 15, most: int = 3000) -> int:
    """Number of rounds of a call that fit into a time, after two untimed ones."""
    call()
    call()
    start = time.perf_counter()
    call()
    return int(min(max(seconds / (time.perf_counter() - start), least), most))
