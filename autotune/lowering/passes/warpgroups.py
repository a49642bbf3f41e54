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
be memory of a warp instead, or floats whose rows, across the reduction, have gaps between them:
then each thread passes its part of it (`autotune.lowering.passes.passed_operands`).
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
from autotune.lowering.passes.passed_operands import TYPES, Left, Operand, Passed
from autotune.lowering.passes.sum_order import SumOrder
from autotune.lowering.passes.sums_in_flight import COMMIT, FENCE, SUMS, effect, waited
from autotune.lowering.passes.tensor_cores import (
    COLUMNS,
    FACTORS,
    ROWS,
    depth_of,
    product_factors,
)

WGMMA = "wgmma"
# Warps of a warpgroup, and the rows that it multiplies with one instruction.
WARPS, TILE_ROWS = 4, 64
# Columns of one instruction: a multiple of these, up to those.
UNIT, MOST_COLUMNS = 8, 256


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
class _Part:
    """So many instructions from the first of a chunk on, and their left operands by tile."""

    first: int
    count: int
    lefts: Sequence[Left]


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
        lefts = self._lefts(left, at_row, (node, step), rows, lanes)
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

    def _lefts(
        self,
        left: Operand,
        at: Mapping[Var, int],
        loops: tuple[For, For],
        count: int,
        lanes: _Lanes,
    ) -> list[_Part] | None:
        """Return the left operand of ``count`` tiles of a warpgroup, by groups of instructions."""
        (chunk, step), height = loops, TILE_ROWS * (lanes.warps // WARPS)
        chunks = constant_iterations(chunk, WGMMA)
        of_warp = left.buffer in self.draft.of_warps
        # Rows of floats across the reduction have a gap if threads are to read them.
        gaps = left.of.get(step.var, 0) > count * height and left.buffer.dtype == "float32"
        if not (of_warp or (gaps and left.buffer.scope == "shared")):
            a = self._tile(left, at, left.of.get(lanes.y, 0), loops, count * height)
            whole = None if a is None else self._whole(left.buffer, a, chunk, count, lanes)
            return None if whole is None else [_Part(0, chunks, whole)]
        if of_warp and left.buffer.dtype == "float32":
            return None
        passed = Passed.of(self.simplifier, left, at, loops, count, lanes.x)
        if passed is None:
            return None
        # Half of the instructions are at work while registers of the others are loaded.
        size = chunks if of_warp or chunks % 2 else chunks // 2
        return [_Part(i, size, passed.lefts(i)) for i in range(0, chunks, size)]

    def _tile(
        self,
        operand: Operand,
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
    ) -> list[Left]:
        """Return the left operand in shared memory of ``count`` tiles of a warpgroup."""
        simplifier, made = self.simplifier, []
        self.tiles[buffer] = tile
        group = simplifier.floordiv(simplifier.var(lanes.z), WARPS)
        step = simplifier.combine([(simplifier.var(chunk.var), depth_of(buffer.dtype))])
        for number in range(count):
            first = constant(number * TILE_ROWS * (lanes.warps // WARPS))
            row = simplifier.combine([(group, TILE_ROWS), (first, 1)])
            begin = simplifier.expr(tile.begin(simplifier, row, step))
            made.append(Left((_whole(tile), begin), tile))
        return made

    def _multiplied(
        self, node: For, totals: Buffer, parts: Sequence[_Part], b: Tile, columns: int
    ) -> Stmt:
        """Return the instructions of a nest, with the statements required around them."""
        count = len(parts[0].lefts) * columns // 2
        kept = {store.buffer for part in parts for left in part.lefts for store in left.packed}
        begun = [self._begun(node, totals, part, b, columns, len(parts) > 1) for part in parts]
        sums = Evaluate(Call(SUMS, (Load(totals, (IntImm(0),)), IntImm(count))))
        multiplied = seq(*begun, waited(0), sums)
        for buffer in kept:
            multiplied = Allocate(buffer, multiplied)
        return multiplied

    def _begun(
        self, node: For, totals: Buffer, part: _Part, b: Tile, columns: int, is_one: bool
    ) -> Stmt:
        """Return a group of instructions; ``is_one`` of several, which wait for one another."""
        simplifier, depth = self.simplifier, depth_of(b.buffer.dtype)
        step = simplifier.combine(
            [(simplifier.var(node.var), depth), (constant(part.first * depth), 1)]
        )
        right = (_whole(b), simplifier.expr(b.begin(simplifier, constant(0), step)))
        calls = []
        for number, left in enumerate(part.lefts):
            tiles = [b] if left.tile is None else [left.tile, b]
            layout = [IntImm(each.item * each.panel) for each in tiles]
            layout += [IntImm(int(each.across)) for each in tiles]
            sums = Load(totals, (IntImm(number * columns // 2),))
            name = instruction(b.buffer.dtype, columns, passed=left.tile is None)
            calls.append(Evaluate(Call(name, (sums, *left.arguments, *right, *layout))))
        packed = [store for left in part.lefts for store in left.packed]
        extent = IntImm(part.count)
        return seq(
            waited(1) if is_one else seq(),
            For(node.var, extent, ForKind.UNROLLED, seq(*packed)) if packed else seq(),
            effect(FENCE),
            For(node.var, extent, ForKind.UNROLLED, seq(*calls)),
            effect(COMMIT),
        )

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

    def _numbered(self, sums: Sequence[_Sum], lanes: _Lanes) -> tuple[Buffer, Operand, Operand]:
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
        left_operand = Operand(a, dict(of_a), [each for each, _ in pairs])
        return totals, left_operand, Operand(b, dict(of_b), [each for _, each in pairs])

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
