"""Matrix products: mm, bmm, addmm, baddbmm and linear, with weights of float or of 8-bit integers."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .lanes import activation_constants, group_constants, lane_shader, slices, waves_of
from .registry import operator
from .rounds import MOST_ROUNDS

if TYPE_CHECKING:
    from .call import BoundTensor, Call

__all__ = ["Product", "dispatch_product", "pack_rows_by_four", "pack_tiles"]

MOST_GROUPS = 65535  # in a direction; the least that Vulkan guarantees
TILE = 32  # columns of eight lanes with four each


@dataclass(frozen=True, slots=True)
class Product:
    """``out = alpha * A @ B + beta * bias`` for each of a batch; strides in elements, `out` is dense.

    Attributes
    ----------
    m, n, k, batch
        Sizes.
    a_row, a_batch, b_row, b_column, b_tile, b_batch
        Strides of A and B; columns of A are adjacent, and those of B lie in tiles of 32.
    bias
        Strides of the bias by row, column and batch; None without.
    alpha, beta
        Factors.
    """

    m: int
    n: int
    k: int
    batch: int
    a_row: int
    a_batch: int
    b_row: int
    b_column: int
    b_tile: int
    b_batch: int
    bias: tuple[int, int, int] | None = None
    alpha: float = 1.0
    beta: float = 1.0

    @property
    def rows(self) -> int:
        """Rows of a tile of rows: where there are few, lanes divide k among them instead."""
        return next(rows for rows in (1, 2, 4, 8) if rows >= self.m or rows == 8)

    @property
    def step(self) -> int:
        """How far along k a round goes."""
        return 32 // self.rows

    @property
    def row_tiles(self) -> int:
        """Tiles of rows that a lane works on."""
        return 2 if self.m > 8 else 1

    @property
    def column_tiles(self) -> int:
        """Times four columns that a lane works on."""
        return 2 if self.n > TILE else 1

    @property
    def bias_kind(self) -> int:
        """How the bias is loaded: not at all, once for a row, once for a column, for each element."""
        if self.bias is None:
            return 0
        row, column, _ = self.bias
        return 1 if column == 0 else 2 if row == 0 else 3

    def constants(self) -> dict[int, int | float]:
        """Specialization constants that depend on sizes only by a few cases."""
        return {
            0: self.rows,
            1: self.row_tiles,
            2: self.column_tiles,
            3: int(self.a_row % 4 == 0 and self.a_batch % 4 == 0),
            4: int(self.b_column == 1 and self.b_row % 4 == 0 and self.b_batch % 4 == 0),
            5: int(self.n % 4 == 0),
            6: self.bias_kind,
        }

    def push(self, first_tile: int, first_batch: int, first_k: int) -> bytes:
        """Push constants of the dispatch that begins at a tile of rows, a member of the batch and a place along k."""
        strides = (
            self.a_row,
            self.a_batch,
            self.b_row,
            self.b_column,
            self.b_tile,
            self.b_batch,
            *(self.bias or (0, 0, 0)),
        )
        first = (first_tile, first_batch, first_k)
        return struct.pack("=12I2f3I", self.m, self.n, self.k, *strides, self.alpha, self.beta, *first)


def dispatch_product(
    call: Call,
    product: Product,
    a: BoundTensor,
    b: BoundTensor,
    bias: BoundTensor | None,
    out: BoundTensor,
    scales: BoundTensor | None = None,
) -> None:
    """Emit a product; with `scales` (float32, one for each column) B is of int8."""
    if out.numel == 0:
        return
    most = MOST_ROUNDS // 32 * 32 * product.step
    if product.k > most:
        _dispatch_pieces(call, product, most, a, b, bias, out, scales)
    else:
        _dispatch_piece(call, product, 0, a, b, bias, out, scales, activation_constants(call))


def _dispatch_pieces(
    call: Call,
    product: Product,
    most: int,
    a: BoundTensor,
    b: BoundTensor,
    bias: BoundTensor | None,
    out: BoundTensor,
    scales: BoundTensor | None,
) -> None:
    """A sum along k that is too long for one loop: what a piece gives is the bias of the next."""
    for first, length in slices(product.k, most):
        last = first + length == product.k
        result = out if last else call.temporary(out.dtype, out.shape)
        activation = activation_constants(call) if last else {}
        _dispatch_piece(call, replace(product, k=first + length), first, a, b, bias, result, scales, activation)
        bias, product = result, replace(product, bias=(product.n, 1, product.m * product.n), beta=1.0)


def _dispatch_piece(
    call: Call,
    product: Product,
    first_k: int,
    a: BoundTensor,
    b: BoundTensor,
    bias: BoundTensor | None,
    out: BoundTensor,
    scales: BoundTensor | None,
    activation: dict[int, int | float],
) -> None:
    shader = lane_shader(f"matmul_{out.short}" + ("_int8" if scales is not None else ""), call.limits)
    reads = [a, b, a if bias is None else bias, *([] if scales is None else [scales])]
    constants = {**product.constants(), **group_constants(call.limits), **activation}
    row_groups = -(-product.m // (product.rows * product.row_tiles))
    columns = -(-product.n // (TILE * product.column_tiles * waves_of(call.limits)))
    for first_batch, batches in slices(product.batch, MOST_GROUPS):
        for first_tile, tiles in slices(row_groups, MOST_GROUPS):
            groups = (tiles, columns, batches)
            call.dispatch(shader, reads, [out], product.push(first_tile, first_batch, first_k), groups, constants)


def pack_rows_by_four(weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A matrix with rows padded by zeros to a multiple of four."""
    return np.pad(weight, ((0, 0), (0, -weight.shape[1] % 4)))


def pack_tiles(weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """From (n, k) to (n / 32, k, 32), zeros behind the last: a tile of columns is read from one end to the other."""
    n, k = weight.shape
    packed = np.zeros((-(-n // TILE) * TILE, k), weight.dtype)
    packed[:n] = weight
    return packed.reshape(-1, TILE, k).transpose(0, 2, 1)


def broadcast_strides(bias: BoundTensor | None, batched: bool) -> tuple[int, int, int] | None:
    """Strides of a bias that is broadcast to (batch, rows, columns)."""
    if bias is None:
        return None
    rank = 3 if batched else 2
    shape, strides = (1,) * (rank - len(bias.shape)) + bias.shape, (0,) * (rank - len(bias.shape)) + bias.strides
    steps = [0 if size == 1 else step for size, step in zip(shape, strides, strict=True)]
    return steps[-2], steps[-1], steps[0] if batched else 0


def matrices(call: Call, a: BoundTensor, b: BoundTensor, bias: BoundTensor | None = None) -> None:
    """A product of dense matrices, or of batches of them."""
    batched = len(a.shape) == 3
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    beta = float(call.get("beta", 1.0))
    if beta == 0:  # then PyTorch lets no NaN through from the bias
        bias = None
    product = Product(
        m=m,
        n=n,
        k=k,
        batch=a.shape[0] if batched else 1,
        a_row=k,
        a_batch=m * k,
        b_row=n,
        b_column=1,
        b_tile=TILE,
        b_batch=k * n,
        bias=broadcast_strides(bias, batched),
        alpha=float(call.get("alpha", 1.0)),
        beta=beta,
    )
    dispatch_product(call, product, a, b, bias, call.out)


@operator("aten.mm.default", "aten.bmm.default")
def mm(call: Call) -> None:
    """``self @ mat2``."""
    matrices(call, call["self"], call["mat2"])


@operator("aten.addmm.default")
def addmm(call: Call) -> None:
    """``beta * self + alpha * mat1 @ mat2``."""
    matrices(call, call["mat1"], call["mat2"], call["self"])


@operator("aten.baddbmm.default")
def baddbmm(call: Call) -> None:
    """``beta * self + alpha * batch1 @ batch2``."""
    matrices(call, call["batch1"], call["batch2"], call["self"])


def linear_product(x: BoundTensor, n: int, bias: BoundTensor | None) -> Product:
    """The product of a linear layer whose weights are packed in tiles."""
    k = x.shape[-1]
    return Product(
        m=int(np.prod(x.shape[:-1], dtype=np.int64)),
        n=n,
        k=k,
        batch=1,
        a_row=k,
        a_batch=0,
        b_row=TILE,
        b_column=1,
        b_tile=TILE * k,
        b_batch=0,
        bias=None if bias is None else (0, 1, 0),
    )


@operator("aten.linear.default", keep=True)
def linear(call: Call) -> None:
    """``input @ weight.T + bias``."""
    x, weight, bias = call["input"], call["weight"], call["bias"]
    n, k = (1, weight.shape[0]) if len(weight.shape) == 1 else weight.shape
    product = linear_product(x, n, bias)
    if call.is_constant(weight):
        packed = call.packed(weight, "tiles", lambda array: pack_tiles(array.reshape(n, k)))
        dispatch_product(call, product, x, packed, bias, call.out)
    else:
        dispatch_product(call, replace(product, b_row=1, b_column=k), x, weight, bias, call.out)


def check_int8(values: dict[str, Any]) -> str | None:
    """Weights of int8 are packed when the model is loaded."""
    return None if str(values["mat2"].dtype) == "torch.int8" else f"its weights are {values['mat2'].dtype}, not int8"


@operator("aten._weight_int8pack_mm.default", check=check_int8)
def linear_int8(call: Call) -> None:
    """``self @ (mat2 * scales[:, None]).T`` with int8 `mat2`, one scale for each output."""
    x, weight, scales = call["self"], call["mat2"], call["scales"]
    packed = call.packed(weight, "tiles", pack_tiles)
    wide = call.packed(scales, "float32", lambda array: array.astype(np.float32))
    dispatch_product(call, linear_product(x, weight.shape[0], None), x, packed, None, call.out, wide)
