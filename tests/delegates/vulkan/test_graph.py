"""The blob of a delegate: written and read, and damaged in every place."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etarena import Error
from etarena.allocator.plan import Binding
from etarena.allocator.sizes import Opcode
from etarena.delegates.vulkan.graph import Graph, Operation, Size, TensorId, Value


def example() -> Graph:
    """``relu(x) + w`` for x of shape (n, 4), with arguments of every kind."""
    return Graph(
        values=[
            Value("float32", (0, 1)),
            Value("float32", (1,), (0, 16)),
            Value("float32", (0, 1)),
            Value("float32", (0, 1)),
        ],
        operations=[
            Operation("aten.relu.default", {"self": TensorId(0)}, (2,)),
            Operation(
                "aten.add.Tensor",
                {
                    "self": TensorId(2),
                    "other": TensorId(1),
                    "alpha": 1,
                    "list": [Size(0), 3, None, "text", True, 0.5, [TensorId(1)]],
                    "infinite": -math.inf,
                },
                (3,),
            ),
        ],
        inputs=[0, None],
        outputs=[3],
        n_symbols=1,
        code=[(int(Opcode.CONST), 4, 0, 0)],
        bindings=[Binding(0, 0, 0, 1, 0)],
        constants=bytes(range(16)),
    )


def test_a_graph_is_read_as_it_was_written() -> None:
    graph = example()
    read = Graph.decode(graph.encode())
    assert bytes(read.constants) == graph.constants
    read.constants = graph.constants
    assert read == graph


def test_constants_begin_at_a_line() -> None:
    blob = example().encode()
    assert blob.endswith(bytes(range(16)))
    assert (len(blob) - 16) % 64 == 0


@given(st.data())
def test_damaged_bytes_are_refused_or_read_never_worse(data: st.DataObject) -> None:
    blob = bytearray(example().encode())
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    try:
        graph = Graph.decode(bytes(blob))
    except Error:
        return
    assert len(graph.outputs) == 1  # damage in a name or a constant need not show


@given(st.integers(0, 200))
def test_cut_off_blobs_are_refused(kept: int) -> None:
    blob = example().encode()
    with pytest.raises(Error):
        Graph.decode(blob[:kept])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.values.__setitem__(0, Value("complex64", (0, 1))), "unknown dtype"),
        (lambda g: g.values.__setitem__(0, Value("float32", (0,) * 9)), "rank 9"),
        (lambda g: g.values.__setitem__(0, Value("float32", (7, 1))), "register 7"),
        (lambda g: g.values.__setitem__(1, Value("float32", (1,), (8, 16))), "constant bytes"),
        (lambda g: g.values.__setitem__(1, Value("float32", (1,), (-4, 16))), "constant bytes"),
        (lambda g: g.outputs.__setitem__(0, 9), "value 9"),
        (lambda g: g.outputs.append(3), "argument twice"),
        (lambda g: g.outputs.__setitem__(0, 0), "argument twice"),
        (lambda g: g.inputs.append(0), "argument twice"),
        (lambda g: g.operations.reverse(), "nothing wrote before"),
        (lambda g: g.operations.append(g.operations[0]), "once more"),
        (lambda g: g.operations.pop(), "never written"),
        (lambda g: g.bindings.clear(), "inputs define 0"),
        (lambda g: g.bindings.__setitem__(0, Binding(0, 0, 2, 1, 0)), "bound to no size"),
        (lambda g: g.bindings.__setitem__(0, Binding(0, 1, 0, 1, 0)), "bound to no size"),
        (lambda g: g.bindings.__setitem__(0, Binding(0, 1, -1, 1, 0)), "bound to no size"),
        (lambda g: g.bindings.__setitem__(0, Binding(0, 0, -1, 1, 0)), "bound to no size"),
        (lambda g: g.bindings.__setitem__(0, Binding(0, 0, 0, 0, 0)), "bound to no size"),
        (lambda g: g.code.__setitem__(0, (99, 0, 0, 0)), "damaged"),
    ],
)
def test_graphs_that_do_not_fit_together_are_refused(change: object, message: str) -> None:
    graph = example()
    change(graph)  # type: ignore[operator]
    with pytest.raises(Error, match=message):
        Graph.decode(graph.encode())
