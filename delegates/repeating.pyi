from typing_extensions import disjoint_base

__all__ = ["Repeating"]

@disjoint_base
class Repeating: ...
