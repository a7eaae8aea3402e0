"""Keeps arenas usable in a forked child: it gets a copy of their memory, but of no thread that might hold a lock."""

from .arena_core cimport ArenaCore
from .mutex cimport mutex_lock, mutex_new, mutex_unlock

import os

from .arena_core import arenas

__all__ = []


def lock_before_fork():
    """Let no other thread be in the middle of an allocation when the process is copied."""
    cdef ArenaCore arena
    for arena in list(arenas):
        mutex_lock(arena.lock)


def unlock_after_fork():
    cdef ArenaCore arena
    for arena in list(arenas):
        mutex_unlock(arena.lock)


def renew_locks_in_child():
    """Only the forking thread lives on in the child, under a new identity, so locks held by any thread are void."""
    cdef ArenaCore arena
    for arena in list(arenas):
        arena.lock = mutex_new()
        arena.turn_lock = mutex_new()


os.register_at_fork(before=lock_before_fork, after_in_parent=unlock_after_fork, after_in_child=renew_locks_in_child)
