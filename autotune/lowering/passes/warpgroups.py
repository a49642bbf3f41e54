"""Products on Hopper's tensor cores: a marked loop nest becomes ``wgmma``.

They are of 16-bit floats, or of floats that the definition cuts to TF32. The nest is what a thread
does for its own part of a matrix product in some 16 steps of the reduction, some 8 of TF32::

    for chunk in 0..n:  # wgmma
      for k in 0..16:
        C.local[i, j] += float32(A.shared[i, chunk, k]) * float32(B.shared[chunk, k, j])

with a store for each element that virtual threads or loops name. Four warps, a warpgroup, multiply
64 rows by up to 256 columns with one instruction, which reads both operands from shared memory
while its threads go on. Which sums a thread has is fixed (PTX ISA, "Register fragments for
wgmma.mma_async.m64nNk16"), and so it is here: with threadIdx.x in 0..4, threadIdx.y in 0..8 and
warps along threadIdx.z, thread (x, y, z) has, of each 64 rows times the number of warpgroups, rows
16 z + y and 16 z + y + 8, and of these columns 8 j + 2 x and 8 j + 2 x + 1. An instruction numbers
its sums by, the slowest first, the 64 rows, j, the row, the column; a nest may do it otherwise.
`autotune.lowering.passes.panels` has the layout of the operands in shared memory. The left one may
be memory of a warp instead: then each thread passes what it has of it, as to ``mma.sync``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as tuples
from math import prod

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import AtomKind, constant
from autotune.ir.expr import Call, Expr, IntImm, Load, Ramp, Var
from autotune.ir.stmt import (
    Allocate,
    Buffer,
    Evaluate,
    For,
    ForKind,
    Seq,
    Stmt,
    Store,
    seq,
)
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.extents import constant_iterations, known
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.layouts import lay_out
from autotune.lowering.passes.panels import Tile
from autotune.lowering.passes.sum_order import SumOrder
from autotune.lowering.passes.sums_in_flight import COMMIT, FENCE, SUMS, effect, waited
from autotune.lowering.passes.tensor_cores import (
    APART,
    COLUMNS,
    FACTORS,
    ROWS,
    depth_of,
    product_factors,
)

WGMMA = "wgmma"
TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32"}
# Warps of a warpgroup, and the rows that it multiplies with one instruction.
WARPS, TILE_ROWS = 4, 64
# Columns of one instruction: a multiple of these, up to those.
UNIT, MOST_COLUMNS = 8, 256
# Makes a register of two factors, of which a thread passes so many.
PAIR, PASSED = "wgmma_pair", 4


def instruction(dtype: str, columns: int, passed: bool = False) -> str:
    """Return the name of the function that is one instruction; threads may pass its left side."""
    name = f"{WGMMA}_m{TILE_ROWS}n{columns}k{depth_of(dtype)}_{TYPES[dtype]}"
    return f"{name}_passed" if passed else name


def use_warpgroups(stmt: Stmt, draft: Draft) -> Stmt:
    """Carries out marked loops of matrix products by instructions of four warps (``wgmma``)."""
    if not draft.gpu:
        return stmt
    multiplier = _Multiplier(draft)
    stmt = multiplier.rewrite(stmt)
    if not multiplier.tiles:
        return stmt
    return lay_out(stmt, draft.simplifier, {**multiplier.tiles, **multiplier.orders})


@dataclass(frozen=True)
class _Sum:
    """A store of sums, what it reads, and the loops of data around it."""

    total: Store
    left: Load
    right: Load
    loops: Sequence[For]


@dataclass(frozen=True)
class _Operand:
    """An operand as the nest reads it: coefficients of variables, and offsets by sum."""

    buffer: Buffer
    of: Mapping[Var, int]
    offsets: Sequence[int]


@dataclass(frozen=True)
class _Left:
    """The left operand of an instruction: its arguments, and the tile that they name.

    Unless threads pass it: registers, which ``packed`` fills.
    """

    arguments: Sequence[Expr]
    tile: Tile | None = None
    packed: Sequence[Store] = ()


@dataclass(frozen=True)
class _Lanes:
    """The thread axes, and how many warps there are."""

    x: Var
    y: Var
    z: Var
    warps: int


class _Multiplier(StmtRewriter):
    """Replaces marked nests; ``tiles`` are their operands, by the buffers that they were.

    ``orders`` are those of sums that nests number otherwise than instructions do.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.simplifier = draft.simplifier
        self.tiles: dict[Buffer, Tile] = {}
        self.orders: dict[Buffer, SumOrder] = {}

    def visit_For(self, node: For) -> Stmt:
        """Replace a marked nest, or visit the body of a loop."""
        if WGMMA not in node.annotations:
            return super().visit_For(node)
        step = node.body
        sums = list(self._sums(step.body, ())) if isinstance(step, For) else []
        if not isinstance(step, For) or step.iterations != depth_of(sums[0].left.buffer.dtype):
            raise self._refusal("expected a loop of 16 steps, 8 of TF32, inside the marked one")
        lanes = self._lanes()
        totals, left, right = self._numbered(sums, lanes)
        rows, columns = (len(set(each.offsets)) // 2 for each in (left, right))
        height = TILE_ROWS * (lanes.warps // WARPS)
        of_row, of_column = left.of.get(lanes.y, 0), right.of.get(lanes.x, 0) // 2
        expected = [
            ((height * tile + ROWS * half) * of_row, (UNIT * j + own) * of_column)
            for tile in range(rows)
            for j in range(columns)
            for half in (0, 1)
            for own in (0, 1)
        ]
        at_row = {lanes.y: of_row, lanes.z: 2 * ROWS * of_row}
        b = self._tile(right, {lanes.x: 2 * of_column}, of_column, (node, step), columns * UNIT)
        lefts: list[_Left] | None
        if left.buffer in self.draft.of_warps:
            lefts = self._passed(left, at_row, (node, step), rows, lanes)
        else:
            a = self._tile(left, at_row, of_row, (node, step), rows * height)
            lefts = None if a is None else self._whole(left.buffer, a, node, rows, lanes)
        found = list(zip(left.offsets, right.offsets, strict=True))
        order = SumOrder.of(totals, found, expected, (rows, columns, 2, 2))
        if lefts is None or b is None or order is None or columns * UNIT > MOST_COLUMNS:
            raise self._refusal(
                "expected each thread to have rows 8 apart of the 64 of a warpgroup and two of "
                f"each 8 of at most {MOST_COLUMNS} columns, and whole operands in shared memory, "
                f"got {sums[0].total}"
            )
        self.tiles[right.buffer] = b
        if not order.is_given:
            self.orders[totals] = order
        return self._multiplied(node, totals, lefts, b, columns * UNIT)

    def _tile(
        self,
        operand: _Operand,
        at: Mapping[Var, int],
        one: int,
        loops: tuple[For, For],
        across: int,
    ) -> Tile | None:
        """Return the tile that an operand is, None if it is read in another way.

        Args:
            operand: which one.
            at: how its index has to depend on threads.
            one: how far a row, if it is the left operand, or a column is from the next.
            loops: the two over steps of the reduction.
            across: how many rows or columns there are.
        """
        outer, inner = loops
        step = operand.of.get(inner.var, 0)
        wanted = {**at, inner.var: step}
        buffer, depth = operand.buffer, depth_of(operand.buffer.dtype)
        if outer.iterations != 1:
            wanted[outer.var] = depth * step
        deep = constant_iterations(outer, WGMMA) * depth
        transposed = step != 1
        rows, width = (deep, across) if transposed else (across, deep)
        plain = operand.of == wanted and {one, step} == {1, width}
        size = prod(known(buffer.shape, buffer.name))
        if not plain or size != rows * width or buffer.scope != "shared" or buffer in self.tiles:
            return None
        tile = Tile(buffer, rows, width, transposed)
        new = Buffer(buffer.name, (tile.size,), buffer.dtype, buffer.scope)
        return replace(tile, buffer=new)

    def _whole(
        self, buffer: Buffer, tile: Tile, chunk: For, count: int, lanes: _Lanes
    ) -> list[_Left]:
        """Return the left operand in shared memory of ``count`` tiles of a warpgroup."""
        simplifier, made = self.simplifier, []
        self.tiles[buffer] = tile
        group = simplifier.floordiv(simplifier.var(lanes.z), WARPS)
        step = simplifier.combine([(simplifier.var(chunk.var), depth_of(buffer.dtype))])
        for number in range(count):
            first = constant(number * TILE_ROWS * (lanes.warps // WARPS))
            row = simplifier.combine([(group, TILE_ROWS), (first, 1)])
            begin = simplifier.expr(tile.begin(simplifier, row, step))
            made.append(_Left((_whole(tile), begin), tile))
        return made

    def _passed(
        self,
        left: _Operand,
        at: Mapping[Var, int],
        loops: tuple[For, For],
        count: int,
        lanes: _Lanes,
    ) -> list[_Left] | None:
        """Return what threads pass of ``count`` tiles: pairs of steps, of two rows each."""
        simplifier, (chunk, step), dtype = self.simplifier, loops, left.buffer.dtype
        depth, one = depth_of(dtype), left.of.get(step.var, 0)
        around = {chunk.var: depth * one} if chunk.iterations != 1 else {}
        if left.of != {**at, step.var: one, **around} or dtype == "float32":
            return None
        own = [(simplifier.var(var), k) for var, k in left.of.items() if var is not step.var]
        own.append((simplifier.var(lanes.x), 2 * one))
        rows, made = sorted(set(left.offsets)), []
        words = count * PASSED
        pairs = Buffer(
            f"{left.buffer.name}_pairs",
            (constant_iterations(chunk, WGMMA) * words,),
            "uint32",
            "local",
        )
        for number in range(count):
            stores: list[Store] = []
            for first in range(0, depth, APART):
                for row in rows[2 * number : 2 * number + 2]:
                    places = [
                        simplifier.combine([*own, (constant(row + one * (first + each)), 1)])
                        for each in (0, 1)
                    ]
                    loads = [Load(left.buffer, (simplifier.expr(place),)) for place in places]
                    place = [
                        (simplifier.var(chunk.var), words),
                        (constant(number * PASSED + len(stores)), 1),
                    ]
                    index = simplifier.expr(simplifier.combine(place))
                    pair = Call(f"{PAIR}_{TYPES[dtype]}", tuple(loads), "uint32")
                    stores.append(Store(pairs, (index,), pair))
            made.append(_Left([Load(pairs, each.indices) for each in stores], packed=stores))
        return made

    def _multiplied(
        self, node: For, totals: Buffer, lefts: Sequence[_Left], b: Tile, columns: int
    ) -> Stmt:
        """Return the instructions of a nest, with the statements required around them."""
        simplifier, dtype = self.simplifier, b.buffer.dtype
        step = simplifier.combine([(simplifier.var(node.var), depth_of(dtype))])
        right = (_whole(b), simplifier.expr(b.begin(simplifier, constant(0), step)))
        calls = []
        for number, left in enumerate(lefts):
            tiles = [b] if left.tile is None else [left.tile, b]
            layout = [IntImm(each.item * each.panel) for each in tiles]
            layout += [IntImm(int(each.across)) for each in tiles]
            sums = Load(totals, (IntImm(number * columns // 2),))
            name = instruction(dtype, columns, passed=left.tile is None)
            calls.append(Evaluate(Call(name, (sums, *left.arguments, *right, *layout))))
        count = len(lefts) * columns // 2
        multiplied = seq(
            effect(FENCE),
            For(node.var, node.extent, ForKind.UNROLLED, seq(*calls)),
            effect(COMMIT),
            waited(0),
            Evaluate(Call(SUMS, (Load(totals, (IntImm(0),)), IntImm(count)))),
        )
        packed = [store for left in lefts for store in left.packed]
        if not packed:
            return multiplied
        before = For(node.var, node.extent, ForKind.UNROLLED, seq(*packed))
        return Allocate(packed[0].buffer, seq(before, multiplied))

    # What a nest has to be.

    def _sums(self, stmt: Stmt, loops: tuple[For, ...]) -> Iterator[_Sum]:
        """Yield the stores of a nest."""
        match stmt:
            case Seq(stmts):
                for each in stmts:
                    yield from self._sums(each, loops)
            case For():
                yield from self._sums(stmt.body, (*loops, stmt))
            case _:
                factors = product_factors(stmt)
                if factors is None:
                    raise self._refusal(f"expected a sum of products of {FACTORS}, got {stmt}")
                yield _Sum(*factors, loops)

    def _numbered(self, sums: Sequence[_Sum], lanes: _Lanes) -> tuple[Buffer, _Operand, _Operand]:
        """Return the buffer of sums and the operands, whose offsets are ordered by sum."""
        found: dict[int, tuple[int, int]] = {}
        seen, count = set(), 0
        rests: list[frozenset[tuple[Var, int]]] = []
        for each in sums:
            left, right = each.left, each.right
            if lanes.y in self.simplifier.form_of(right.indices[0]).vars:
                left, right = right, left
            inner = {loop.var: range(constant_iterations(loop, WGMMA)) for loop in each.loops}
            places = (each.total.indices[0], left.indices[0], right.indices[0])
            forms = [self._linear(place) for place in places]
            rests = [frozenset((v, k) for v, k in of.items() if v not in inner) for _, of in forms]
            seen.add((each.total.buffer, left.buffer, right.buffer, *rests))
            count += prod(map(len, inner.values()))
            for values in tuples(*inner.values()):
                moved = list(zip(inner, values, strict=True))
                at = [const + sum(of.get(v, 0) * n for v, n in moved) for const, of in forms]
                found[at[0]] = (at[1], at[2])
        if len(seen) != 1 or sorted(found) != list(range(count)) or rests[0]:
            raise self._refusal("expected the sums of one product of two tiles")
        ((totals, a, b, _, of_a, of_b),) = seen
        pairs = [found[i] for i in range(len(found))]
        left_operand = _Operand(a, dict(of_a), [each for each, _ in pairs])
        return totals, left_operand, _Operand(b, dict(of_b), [each for _, each in pairs])

    def _linear(self, index: Expr) -> tuple[int, dict[Var, int]]:
        """Return an index as a constant and coefficients of variables."""
        form = self.simplifier.form_of(index)
        of = {}
        for atom, k in form.terms.items():
            if atom.kind is not AtomKind.VAR:
                raise self._refusal(f"expected a sum of loops and threads, got {index}")
            (var,) = atom.vars
            of[var] = k
        return form.const, of

    def _lanes(self) -> _Lanes:
        """Return the thread axes within a warp, and that of warps."""
        found = {t.tag: t for t in self.draft.threads}
        x, y, z = (found.get(f"threadIdx.{d}") for d in "xyz")
        if (
            x is None
            or y is None
            or z is None
            or z.count % WARPS
            or (x.count, y.count) != (COLUMNS, ROWS)
        ):
            counts = [None if axis is None else axis.count for axis in (x, y, z)]
            raise self._refusal(
                f"expected {COLUMNS} threads along threadIdx.x, {ROWS} along threadIdx.y and a "
                f"multiple of {WARPS} along threadIdx.z, got {counts}"
            )
        return _Lanes(x.var, y.var, z.var, z.count)

    def _refusal(self, why: str) -> LoweringError:
        return LoweringError(f"{WGMMA}: {self.draft.stage}: {why}")


def _whole(tile: Tile) -> Load:
    """Return a load of a whole tile, all that an instruction may read."""
    return Load(tile.buffer, (Ramp(IntImm(0), 1, tile.rows * tile.width),))
