"""What `export(memory="static")` returns."""

from ..exported_file import ExportedFile
from .plan import StaticPlan

__all__ = ["StaticModel"]


class StaticModel(ExportedFile[StaticPlan]):
    """A finished program file whose offsets are fixed, made by `export` with ``memory="static"``.

    Parameters
    ----------
    buffer : bytes
        The file, an ordinary one that the stock runtime runs.
    plans : mapping of str to StaticPlan
        The plan of each method.
    """

    def _described(self, name: str, plan: StaticPlan) -> str:
        return f"{name}: {plan.peak:,} bytes planned"
