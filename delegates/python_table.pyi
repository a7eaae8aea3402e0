from collections.abc import Iterable

from .delegate import Delegate
from .table import Table

__all__ = ["hold_leaked", "table_of_class"]

def hold_leaked(owner: object, tensors: Iterable[object] = ()) -> None: ...
def table_of_class(name: str, delegate: type[Delegate]) -> Table: ...
