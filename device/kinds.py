"""Kinds of resource, as etarena.h numbers them."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["FIRST_CUSTOM_KIND", "ResourceKind", "kind_name"]

FIRST_CUSTOM_KIND = 0x10000


class ResourceKind(IntEnum):
    """What a resource's handle is. Kinds of authors begin at 0x10000."""

    HOST = 1
    VK_BUFFER = 2
    VK_IMAGE = 3
    DEVICE_POINTER = 4
    FD = 5


_KINDS = frozenset(map(int, ResourceKind))


def kind_name(kind: int) -> str:
    """Name a kind, for messages."""
    if kind >= FIRST_CUSTOM_KIND:
        return f"custom kind 0x{kind:x}"
    return ResourceKind(kind).name.lower() if kind in _KINDS else f"unknown kind {kind}"
