from .delegate import Delegate
from .table import Table

__all__ = ["table_of_class"]

def table_of_class(name: str, delegate: type[Delegate]) -> Table: ...
