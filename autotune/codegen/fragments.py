"""Matrices that a warp holds for tensor cores: their types, and the calls of `nvcuda::wmma`.

Which matrix of a product a buffer is, and in which layout it was loaded, follows from the calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from autotune.errors import LoweringError
from autotune.ir import Buffer, Call, Expr, IntImm, Load, Stmt, Store, variables
from autotune.ir.address import Address, addresses_in
from autotune.ir.structure import walk
from autotune.te.warp_matrix import WARP_MATRIX

# The header of all calls, for which matrices in shared memory begin at multiples of 32 bytes.
HEADER, ALIGNMENT = "mma.h", 32
_WARP = 32
_SPACE = "nvcuda::wmma::"
_USES = ("accumulator", "matrix_a", "matrix_b", "accumulator")


@dataclass(frozen=True)
class Fragment:
    """A kind of fragment: which matrix of a product of ``m x n x k`` it is, and its layout."""

    use: str
    sizes: tuple[int, int, int]
    layout: str

    @property
    def elements(self) -> int:
        """The number of elements that a warp holds."""
        m, n, k = self.sizes
        return {"matrix_a": m * k, "matrix_b": k * n}.get(self.use, m * n)

    def type(self, kind: str) -> str:
        """Return the type in C++, for elements of a type."""
        sizes = ", ".join(map(str, self.sizes))
        layout = f", {_SPACE}{self.layout}_major" if self.use != "accumulator" else ""
        return f"{_SPACE}fragment<{_SPACE}{self.use}, {sizes}, {kind}{layout}>"


def fragments_in(
    stmt: Stmt, nodes: Iterable[Call | Address], block: tuple[int, int, int], name: str
) -> dict[Buffer, Fragment]:
    """Return the fragments of a kernel.

    Args:
        stmt: its body.
        nodes: all calls in it.
        block: threads of a block, along x, y and z.
        name: of the kernel, for messages.

    Raises:
        LoweringError: threads of a warp would not make the calls together, a buffer is a fragment
            and something else, or what it is does not follow from the calls.
    """
    calls = [n for n in nodes if isinstance(n, Call) and n.name.startswith(WARP_MATRIX)]
    if not calls:
        return {}
    _check_warps(calls, block, name)
    uses, sizes, layouts = _noted(calls)
    found = {}
    for buffer, use in uses.items():
        layout = layouts.get(buffer, "row")
        if buffer not in sizes:
            raise LoweringError(f"{name}: nothing loads, fills or stores fragment {buffer.name}")
        found[buffer] = Fragment(use, sizes[buffer], layout)
        if prod(_known(buffer.shape)) % found[buffer].elements:
            raise LoweringError(
                f"{name}: {buffer.name} has {buffer.shape} elements; expected fragments of "
                f"{found[buffer].elements}"
            )
    for node in walk(stmt):
        if isinstance(node, Load | Store) and node.buffer in found:
            raise LoweringError(
                f"{name}: {node.buffer.name} is a fragment of a warp, whose elements are only "
                "reached by intrinsics; tensorize each stage that fills or reads it"
            )
    return found


def _check_warps(calls: Iterable[Call], block: tuple[int, int, int], name: str) -> None:
    apart = any(var.name == "threadIdx.x" for call in calls for var in variables(call))
    if block[0] % _WARP or apart:
        raise LoweringError(
            f"{name}: expected threads of a warp along threadIdx.x, which multiply one matrix "
            f"together, got {block[0]} threads{', each with a matrix of its own' if apart else ''}"
        )


def _noted(
    calls: Iterable[Call],
) -> tuple[dict[Buffer, str], dict[Buffer, tuple[int, int, int]], dict[Buffer, str]]:
    """Return which matrix each buffer is, the sizes of its product, and how it was loaded."""
    uses: dict[Buffer, str] = {}
    sizes: dict[Buffer, tuple[int, int, int]] = {}
    layouts: dict[Buffer, str] = {}
    products: list[list[Buffer]] = []
    for call in calls:
        buffers = [each.buffer for each in addresses_in(*call.args)]
        if call.name == "wmma_mma":
            uses.update(zip(buffers, _USES, strict=True))
            products.append(buffers)
            continue
        m, n, k = _known(tuple(call.args[1:4]))
        sizes[buffers[0]] = m, n, k
        uses.setdefault(buffers[0], "accumulator")
        if call.name.startswith("wmma_load_"):
            layouts[buffers[0]] = call.name.rpartition("_")[2]
    for buffers in products:
        known = [sizes[each] for each in buffers if each in sizes]
        for each in buffers if known else ():
            sizes.setdefault(each, known[0])
    return uses, sizes, layouts


def _known(values: tuple[int | Expr, ...]) -> list[int]:
    found = [each.value if isinstance(each, IntImm) else each for each in values]
    return [each for each in found if isinstance(each, int)]


def call_text(node: Call, texts: list[str]) -> str:
    """Return the text of a call, given those of its arguments."""
    kind = node.name.removeprefix(WARP_MATRIX)
    if kind == "mma":
        return f"{_SPACE}mma_sync({', '.join(texts)})"
    first, rest = texts[0], texts[4:]
    if kind == "fill":
        return f"{_SPACE}fill_fragment({first}, {rest[0]})"
    verb, _, layout = kind.partition("_")
    if verb == "load":
        return f"{_SPACE}load_matrix_sync({first}, {', '.join(rest)})"
    memory, stride = rest
    return f"{_SPACE}store_matrix_sync({memory}, {first}, {stride}, {_SPACE}mem_{layout}_major)"
