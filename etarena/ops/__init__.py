"""Operators for models with memory of their own: caches that grow without a bound, and attention that reads them.

They are ordinary torch operators: usable in eager mode, where they define what a program computes, and under
``torch.export``. A cache is a buffer of the module, registered with length 0 (or a start value) in the dimension in
which it grows::

    self.register_buffer("keys", torch.zeros(1, heads, 0, size))

    past = etarena.ops.length(self.keys, 2)
    keys = etarena.ops.append(self.keys, new_keys, 2, past=past)        # [1, heads, past + new, size]
    values = etarena.ops.append(self.values, new_values, 2, past=past)
    out = etarena.ops.attention(queries, keys, values)

In an exported program a cache lies in address space of its own with the growing dimension outermost, so that an append
writes the new entries and nothing else.
"""

from .attention import attention
from .cache import append, length

__all__ = ["append", "attention", "length"]
