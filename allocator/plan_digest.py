"""Ties plan sections to the program file they are stored in, by a digest of the whole file."""

import hashlib
from collections.abc import Iterator
from mmap import mmap

from .errors import PlanError

__all__ = ["DIGEST_SIZE", "HEADER_SIZE", "MAGIC", "check", "program_digest", "seal"]

MAGIC = b"\x93EtarenaPlan\r\n\x1a\n"
DIGEST_SIZE = 32
HEADER_SIZE = len(MAGIC) + DIGEST_SIZE

Buffer = bytes | bytearray | memoryview | mmap


def digest_positions(buffer: Buffer) -> Iterator[int]:
    """Yield where the digest of each section starts."""
    if isinstance(buffer, memoryview):
        buffer = bytes(buffer)
    at = buffer.find(MAGIC)
    while at >= 0:
        if at + HEADER_SIZE > len(buffer):
            raise PlanError(
                f"plan section at byte {at}: the file of {len(buffer)} bytes ends inside the section's digest"
            )
        yield at + len(MAGIC)
        at = buffer.find(MAGIC, at + HEADER_SIZE)


def _digest(view: memoryview, positions: list[int]) -> bytes:
    state = hashlib.blake2b(digest_size=DIGEST_SIZE)
    done = 0
    for at in positions:
        state.update(view[done:at])
        state.update(bytes(DIGEST_SIZE))
        done = at + DIGEST_SIZE
    state.update(view[done:])
    return state.digest()


def program_digest(buffer: Buffer) -> bytes:
    """Digest of a program file that does not depend on the digests stored in it.

    Parameters
    ----------
    buffer : bytes-like
        The whole ``.pte`` file.

    Returns
    -------
    bytes
        BLAKE2b-256 (32 bytes) of the file, the 32 digest bytes behind every `MAGIC` taken as zero.

    Raises
    ------
    PlanError
        The file ends inside a section's digest.
    """
    return _digest(memoryview(buffer), list(digest_positions(buffer)))


def seal(buffer: Buffer) -> bytes:
    """Return the program file with its digest written behind every `MAGIC`; raises like `program_digest`."""
    positions = list(digest_positions(buffer))
    digest = _digest(memoryview(buffer), positions)
    sealed = bytearray(buffer)
    for at in positions:
        sealed[at : at + DIGEST_SIZE] = digest
    return bytes(sealed)


def check(buffer: Buffer) -> int:
    """Check that every plan section in a program file belongs to that file, unchanged.

    Parameters
    ----------
    buffer : bytes-like
        The whole ``.pte`` file.

    Returns
    -------
    int
        Number of plan sections; 0 for a stock file.

    Raises
    ------
    PlanError
        The file ends inside a section's digest, or a digest is not that of the file.
    """
    positions = list(digest_positions(buffer))
    if positions:
        view = memoryview(buffer)
        digest = _digest(view, positions)
        for number, at in enumerate(positions):
            if view[at : at + DIGEST_SIZE] != digest:
                raise PlanError(
                    f"digest of plan section {number} (byte {at}) does not match the program: the file was damaged or "
                    "edited after export, or the section was copied from another program; export it again"
                )
    return len(positions)
