from typing_extensions import disjoint_base

__all__ = ["ScratchUser"]

@disjoint_base
class ScratchUser:
    @property
    def backend(self) -> str: ...
