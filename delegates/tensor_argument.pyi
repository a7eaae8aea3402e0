from typing_extensions import Buffer, disjoint_base

__all__ = ["TensorArgument"]

@disjoint_base
class TensorArgument(Buffer):
    @property
    def dtype(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
