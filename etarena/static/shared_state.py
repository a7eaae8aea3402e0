"""Mutable buffers of several methods: one place for each name, in a pool that nothing else is in."""

from typing import Any

from executorch.exir.tensor import TensorSpec
from torch.export.exported_program import ExportGraphSignature
from torch.fx import GraphModule

from ..allocator.errors import ExportError
from .plan import StaticPlan, StaticPool, StaticValue

__all__ = ["SharedState"]


class SharedState:
    """Collects the buffers of one export's methods; `place` gives them their places.

    A buffer that some method writes is the same in all methods that name it, also in those that only read it.
    """

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._mutable: dict[str, None] = {}
        self._specs: dict[str, list[TensorSpec]] = {}
        self._methods: list[tuple[GraphModule, StaticPlan, dict[str, int]]] = []

    def add(self, graph_module: GraphModule, signature: ExportGraphSignature, plan: StaticPlan) -> None:
        """Note the buffers of a method."""
        names = signature.inputs_to_buffers
        self._mutable.update(dict.fromkeys(signature.buffers_to_mutate.values()))
        own: dict[str, int] = {}
        for node in graph_module.graph.nodes:
            spec: Any = node.meta.get("spec")
            if node.op == "placeholder" and node.target in names and isinstance(spec, TensorSpec):
                name = names[node.target]
                if spec.mem_id is not None or spec.mem_offset is not None:
                    raise ExportError(
                        f"buffer {name!r} is to be shared, but an earlier pass gave it a place: remove it"
                    )
                self._specs.setdefault(name, []).append(spec)
                own[name] = spec.nbytes()
        self._methods.append((graph_module, plan, own))

    def place(self) -> None:
        """Give every buffer that some method writes one place in all methods, behind the largest memory id.

        Raises
        ------
        ExportError
            Two methods give a buffer different sizes.
        """
        pool = max((len(module.meta["non_const_buffer_sizes"]) for module, _, _ in self._methods), default=2)
        end, offsets = 0, {}
        for name in self._mutable:
            specs = self._specs.get(name, [])
            sizes = sorted({spec.nbytes() for spec in specs})
            if len(sizes) > 1:
                raise ExportError(f"buffer {name!r} has {sizes[0]} bytes in one method and {sizes[-1]} in another")
            for spec in specs:
                spec.realign(self._alignment)
                spec.mem_id, spec.mem_offset = pool, end
            offsets[name] = end
            end += specs[0].allocated_memory if specs else 0
        if not end:
            return
        for module, plan, own in self._methods:
            sizes = module.meta["non_const_buffer_sizes"]
            sizes += [0] * (pool - len(sizes)) + [end]
            plan.pools.append(StaticPool(pool, end, end, "shared buffers"))
            positions = max((value.last for value in plan.values), default=1)
            for name in own.keys() & offsets.keys():
                plan.values.append(StaticValue(name, pool, offsets[name], own[name], 0, positions))
