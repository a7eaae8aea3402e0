from typing import Any

from typing_extensions import disjoint_base

__all__ = ["Table", "table_at"]

@disjoint_base
class Table:
    @property
    def name(self) -> str: ...

def table_at(name: str, what: Any) -> Table: ...
