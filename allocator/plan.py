"""The plan section: what a program file says about the memory of one method.

A section is stored as ``MAGIC`` (16 bytes), a digest of the program (32 bytes) and the FlatBuffer of ``plan.fbs``.
Export builds a `Method`, `encode` writes it, and once all sections are inside the program file `seal` writes the digest
of the whole file into each. Loading goes the other way: `check` the file, `decode` each section.

The reader and writer that flatc generates from ``plan.fbs`` is ``_plan_generated.py``; after a change of the schema::

    flatc --python --gen-object-api --gen-onefile -o build allocator/plan.fbs
    cp build/plan_generated.py allocator/_plan_generated.py
"""

from .item_bytes import itemsize
from .plan_codec import decode, encode
from .plan_digest import DIGEST_SIZE, HEADER_SIZE, MAGIC, check, program_digest, seal
from .plan_tables import (
    VERSION,
    Binding,
    Delegate,
    Discovery,
    Guard,
    Input,
    Kind,
    Method,
    Output,
    Scalar,
    SizeInstruction,
    State,
    Symbol,
    Teller,
    Value,
)
from .plan_validation import validate

__all__ = [
    "DIGEST_SIZE",
    "HEADER_SIZE",
    "MAGIC",
    "VERSION",
    "Binding",
    "Delegate",
    "Discovery",
    "Guard",
    "Input",
    "Kind",
    "Method",
    "Output",
    "Scalar",
    "SizeInstruction",
    "State",
    "Symbol",
    "Teller",
    "Value",
    "check",
    "decode",
    "encode",
    "itemsize",
    "program_digest",
    "seal",
    "validate",
]
