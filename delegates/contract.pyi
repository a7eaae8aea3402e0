__all__ = ["ScratchUser"]

class ScratchUser:
    @property
    def backend(self) -> str: ...
