"""Left operands of ``wgmma`` that threads pass in registers.

A thread passes what `autotune.lowering.passes.warpgroups` says of rows y and y + 8 of its warp. Of
16-bit floats that are memory of the warp, pairs of neighbouring steps: a register has two. Of
floats in shared memory whose neighbours are rows, which instructions cannot read there, steps x
and x + 4 of each 8, which the thread loads; padded rows let 32 threads read from 32 banks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.ir.analysis_affine import Affine, constant, shift_affine
from autotune.ir.expr import Call, Expr, Load, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer, For, Store
from autotune.lowering.extents import constant_iterations
from autotune.lowering.passes.panels import Tile
from autotune.lowering.passes.tensor_cores import APART, depth_of

TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32"}
# Makes a register of two factors, of which a thread passes so many.
PAIR, PASSED = "wgmma_pair", 4
# Of which steps, from the thread's own on, a register has elements: two for each row.
_PAIRS, _FLOATS = ((0, 1), (APART, APART + 1)), ((0,), (4,))


@dataclass(frozen=True)
class Operand:
    """An operand as the nest reads it: coefficients of variables, and offsets by sum."""

    buffer: Buffer
    of: Mapping[Var, int]
    offsets: Sequence[int]


@dataclass(frozen=True)
class Left:
    """The left operand of an instruction: its arguments, and the tile that they name.

    Unless threads pass it: registers, which ``packed`` fills.
    """

    arguments: Sequence[Expr]
    tile: Tile | None = None
    packed: Sequence[Store] = ()


@dataclass(frozen=True)
class Passed:
    """What threads pass of the left operand of a nest.

    Attributes:
        simplifier: of the lowering.
        left: the operand.
        chunk: the loop over instructions.
        step: that over the steps of one.
        one: how far a step is from the next.
        count: tiles of a warpgroup.
        x: the thread axis along steps.
        kept: the registers of all instructions.
    """

    simplifier: Simplifier
    left: Operand
    chunk: For
    step: Var
    one: int
    count: int
    x: Var
    kept: Buffer

    @classmethod
    def of(
        cls,
        simplifier: Simplifier,
        left: Operand,
        at: Mapping[Var, int],
        loops: tuple[For, For],
        count: int,
        x: Var,
    ) -> Passed | None:
        """Returns it for ``loops`` over steps; None unless threads read elsewhere than ``at``."""
        chunk, step = loops
        dtype, one = left.buffer.dtype, left.of.get(step.var, 0)
        around = {chunk.var: depth_of(dtype) * one} if chunk.iterations != 1 else {}
        if left.of != {**at, step.var: one, **around}:
            return None
        size = constant_iterations(chunk, "wgmma") * count * PASSED
        name, kind = ("passed", dtype) if dtype == "float32" else ("pairs", "uint32")
        kept = Buffer(f"{left.buffer.name}_{name}", (size,), kind, "local")
        return cls(simplifier, left, chunk, step.var, one, count, x, kept)

    @property
    def floats(self) -> bool:
        """Whether a register has one element; else it has two neighbours."""
        return self.left.buffer.dtype == "float32"

    def lefts(self, first: int = 0) -> list[Left]:
        """Return what is passed to instructions from the ``first`` of the chunk on, by tile."""
        simplifier, around = self.simplifier, self._around(first)
        rows, made = sorted(set(self.left.offsets)), []
        chunk = shift_affine(simplifier.var(self.chunk.var), first)
        for number in range(self.count):
            stores: list[Store] = []
            for steps in _FLOATS if self.floats else _PAIRS:
                for row in rows[2 * number : 2 * number + 2]:
                    places = [
                        simplifier.combine([*around, (constant(row + self.one * each), 1)])
                        for each in steps
                    ]
                    place = [
                        (chunk, self.count * PASSED),
                        (constant(number * PASSED + len(stores)), 1),
                    ]
                    index = simplifier.expr(simplifier.combine(place))
                    stores.append(Store(self.kept, (index,), self._register(places)))
            made.append(Left([Load(self.kept, each.indices) for each in stores], packed=stores))
        return made

    def _around(self, first: int) -> list[tuple[Affine, int]]:
        """Return the terms of an index that threads and the instruction give."""
        simplifier, of = self.simplifier, self.left.of
        terms = [(simplifier.var(var), k) for var, k in of.items() if var is not self.step]
        skipped = first * depth_of(self.left.buffer.dtype) * self.one
        terms.append((constant(skipped), 1))
        return [*terms, (simplifier.var(self.x), self.one if self.floats else 2 * self.one)]

    def _register(self, places: Sequence[Affine]) -> Expr:
        """Return a float, or a pair of shorter ones."""
        buffer = self.left.buffer
        loads = [Load(buffer, (self.simplifier.expr(place),)) for place in places]
        if self.floats:
            return loads[0]
        return Call(f"{PAIR}_{TYPES[buffer.dtype]}", tuple(loads), "uint32")
