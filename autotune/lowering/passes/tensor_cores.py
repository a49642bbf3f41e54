"""Products on tensor cores: a marked loop nest becomes warp matrix instructions.

They are of 16-bit floats, or of float32 that the definition cuts to TF32 (`autotune.te.tf32`). The
nest is what a thread does for its own part of a matrix product in some steps of the reduction, 16,
or 8 of TF32::

    for k in 0..16:  # tensor_core
      for i in 0..m:
        for j in 0..2n:
          C.local[i, j] += float32(A[i, k]) * float32(B[k, j])

with a store for each virtual thread. A warp of threadIdx.y in 0..8 and threadIdx.x in 0..4, of
which the first says which rows a thread has and the second which columns, computes 8m x 8n results
so. An instruction does the same for a tile of 16 x 8, and needs of each thread other elements of A
and B than its own (PTX ISA, "Matrix fragments for mma.m16n8k16" and "... m16n8k8"). Which rows and
columns of C those of the instruction's tile stand for is free: they are chosen so that each thread
gets the sums of its own part, two rows and two columns an instruction. So is which steps are
which: those of one thread are neighbours.

Where neighbours in memory are columns of B, the two of a thread are half of its columns apart: so
what it reads for all instructions, a half of its columns of each step, are neighbours, which it
reads at once. Where they are steps it reads these one by one, and `_Runs` puts columns where the
threads of a warp read from different banks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine, constant
from autotune.ir.dtype import bits_of
from autotune.ir.expr import Add, Call, Cast, Expr, IntImm, Load, Mul, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, Buffer, Evaluate, For, ForKind, Seq, Stmt, Store, seq
from autotune.ir.structure import walk
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.extents import constant_iterations, known
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.layouts import lay_out
from autotune.te import math as te_math
from autotune.te.location import warn_user
from autotune.utils.math import ceil_div

TENSOR_CORE = "tensor_core"
# What they multiply, in messages.
FACTORS = "16-bit floats, or of floats cut to TF32"
# The function that an instruction is, by dtype of the operands: those of float32 are TF32.
INSTRUCTIONS = {
    "float16": "mma_m16n8k16_f16",
    "bfloat16": "mma_m16n8k16_bf16",
    "float32": "mma_m16n8k8_tf32",
}
# Elements by which runs of columns begin apart, and bytes after which banks of memory repeat.
RUN_GAP, _BANKS_BYTES = 16, 128
# Bytes that are copied at once.
_VECTOR_BYTES = 16
# Bytes of a row of the left operand of an instruction: 16 steps of 16 bits, 8 of 32.
_ROW_BYTES = 32
# Stride of the steps of a thread: it has two neighbours of each 8.
APART = 8
# Threads of a warp, by rows and columns.
ROWS, COLUMNS = 8, 4
# More instructions than this in a row only fill the cache of instructions.
MOST_INSTRUCTIONS = 256


def use_tensor_cores(stmt: Stmt, draft: Draft) -> Stmt:
    """Carries out marked loops of matrix products by instructions of tensor cores."""
    if not draft.gpu:
        return stmt
    multiplier = _Multiplier(draft)
    stmt = multiplier.rewrite(stmt)
    return lay_out(stmt, draft.simplifier, multiplier.runs) if multiplier.runs else stmt


@dataclass(frozen=True)
class _Runs:
    """The columns of B in runs of neighbours, those of one thread, which begin in other banks.

    Attributes:
        buffer: that has them.
        length: elements of a run.
        gap: elements after each, which are not used.
    """

    buffer: Buffer
    length: int
    gap: int

    @staticmethod
    def of(given: Buffer, length: int) -> _Runs:
        """Return the runs of the elements of a buffer."""
        size = prod(known(given.shape, given.name))
        gap = (RUN_GAP - length) % (_BANKS_BYTES * 8 // bits_of(given.dtype))
        new = Buffer(given.name, (size + ceil_div(size, length) * gap,), given.dtype, given.scope)
        return _Runs(new, length, gap)

    def place(self, simplifier: Simplifier, index: Affine) -> Affine:
        """Return where an element is that was at ``index``."""
        return simplifier.combine(
            [(index, 1), (simplifier.floordiv(index, self.length), self.gap)]
        )


@dataclass(frozen=True)
class _Row:
    """A row of a thread: the store of its sums, what it reads, its place in the loop of rows."""

    total: Store
    left: Load
    place: Mapping[Var, Affine]


@dataclass(frozen=True)
class _Block:
    """Rows that are multiplied by the same columns, which ``right`` reads one by one."""

    k: Var
    column: For
    right: Load
    rows: Sequence[_Row]


class _Multiplier(StmtRewriter):
    """Replaces marked nests."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.simplifier = draft.simplifier
        # Right operands whose elements have other places now.
        self.runs: dict[Buffer, _Runs] = {}

    def visit_For(self, node: For) -> Stmt:
        """Replace a marked nest, or visit the body of a loop."""
        if TENSOR_CORE not in node.annotations:
            return super().visit_For(node)
        if _computes_several(node):  # as TVM's tutorial marks it, for plain threads
            warn_user(
                f"{TENSOR_CORE}: {self.draft.stage}: the loop is run by plain threads, as its "
                "body computes other stages too; mark the loops of the product alone, or none"
            )
            return super().visit_For(node)
        y, x = self._lanes()
        blocks = self._blocks(node, y, x)
        return seq(*[self._multiplied(each, y, x) for each in blocks])

    # Instructions.

    def _multiplied(self, block: _Block, y: Var, x: Var) -> Stmt:
        """Return the instructions of a block, after the loads of what it takes of the right."""
        half = constant_iterations(block.column, TENSOR_CORE) // 2
        dtype = block.right.buffer.dtype
        starts = range(0, depth_of(dtype), APART)
        steps = [k + each for k in starts for each in (0, 1)]
        singly = self._lies_along_steps(block)
        if singly:
            self._lay_out_in_runs(block, x)
        size = len(steps) * half
        fragment = Buffer(f"{block.right.buffer.name}.fragment", (size,), dtype, "local")
        calls = []
        for pair in zip(block.rows[::2], block.rows[1::2], strict=True):
            left = [
                self._load(row.left, {**row.place, block.k: self._step(x, k + each)})
                for k in starts
                for row in pair
                for each in (0, 1)
            ]
            for j in range(half):
                totals = [
                    self._load(
                        Load(row.total.buffer, row.total.indices),
                        {**row.place, block.column.var: constant(column)},
                    )
                    for row in pair
                    for column in ((2 * j, 2 * j + 1) if singly else (j, j + half))
                ]
                right = [Load(fragment, (IntImm(step * half + j),)) for step in range(len(steps))]
                calls.append(
                    Evaluate(Call(INSTRUCTIONS[dtype], (*totals, *left, *right), "float32"))
                )
        fetched = self._fetched_singly if singly else self._fetched
        loads = [fetched(block, fragment, i, k, y, x) for i, k in enumerate(steps)]
        return Allocate(fragment, seq(*loads, *calls))

    def _fetched(
        self, block: _Block, fragment: Buffer, place: int, k: int, y: Var, x: Var
    ) -> Stmt:
        """Return the loads of one step of half of the columns of a thread, by vectors."""
        simplifier, loop = self.simplifier, block.column
        half = constant_iterations(loop, TENSOR_CORE) // 2
        row, own = simplifier.var(y), Var(loop.var.name, loop.var.dtype, loop.var.axis)
        column = simplifier.bind(own, 0, half - 1)
        odd = simplifier.floormod(row, 2)
        at = {
            x: simplifier.floordiv(row, 2),
            block.k: self._step(x, k),
            loop.var: simplifier.combine([(column, 1), (odd, half)]),
        }
        to = simplifier.combine([(column, 1), (constant(place * half), 1)])
        store = Store(fragment, (simplifier.expr(to),), self._load(block.right, at))
        return For(own, half, ForKind.VECTORIZED, store)

    def _fetched_singly(
        self, block: _Block, fragment: Buffer, place: int, k: int, y: Var, x: Var
    ) -> Stmt:
        """Return the loads of one step of the columns that the thread passes on."""
        simplifier, row = self.simplifier, self.simplifier.var(y)
        half = constant_iterations(block.column, TENSOR_CORE) // 2
        at = {x: simplifier.floordiv(row, 2), block.k: self._step(x, k)}
        odd = simplifier.floormod(row, 2)
        stores = []
        for pair in range(half):
            at[block.column.var] = simplifier.combine([(odd, 1), (constant(2 * pair), 1)])
            value = self._load(block.right, at)
            stores.append(Store(fragment, (IntImm(place * half + pair),), value))
        return seq(*stores)

    def _lies_along_steps(self, block: _Block) -> bool:
        """Return whether neighbours of the right operand in memory are steps."""
        return self._apart(block.right, block.k) == 1

    def _lay_out_in_runs(self, block: _Block, x: Var) -> None:
        """Put the columns of a thread, if they are neighbours, in banks of their own."""
        buffer, columns = block.right.buffer, constant_iterations(block.column, TENSOR_CORE)
        length = self._apart(block.right, x)
        if (
            buffer.scope == "shared"
            and buffer not in self.runs
            and length > 0
            and length == columns * self._apart(block.right, block.column.var)
            and length * bits_of(buffer.dtype) // 8 % _VECTOR_BYTES == 0
        ):
            self.runs[buffer] = _Runs.of(buffer, length)

    def _apart(self, load: Load, var: Var) -> int:
        """Return how far apart the elements of two steps of a variable are; 0 if it depends."""
        places = [self.simplifier.form(load.indices[0], {var: constant(i)}) for i in (1, 0)]
        between = self.simplifier.combine([(places[0], 1), (places[1], -1)])
        return 0 if between.terms else between.const

    def _step(self, x: Var, offset: int) -> Affine:
        return self.simplifier.combine([(self.simplifier.var(x), 2), (constant(offset), 1)])

    def _load(self, load: Load, env: Mapping[Var, Affine]) -> Load:
        index = self.simplifier.expr(self.simplifier.form(load.indices[0], env))
        return Load(load.buffer, (index,))

    # What a nest has to be.

    def _blocks(self, node: For, y: Var, x: Var) -> list[_Block]:
        loops, body = [node], node.body
        while isinstance(body, For):
            loops.append(body)
            body = body.body
        found: dict[Expr, _Block] = {}
        for each in body.stmts if isinstance(body, Seq) else (body,):
            block = self._block(each, loops, y, x)
            known = found.get(block.right.indices[0], block)
            rows = [*known.rows, *block.rows] if known is not block else block.rows
            found[block.right.indices[0]] = replace(known, rows=rows)
        for block in found.values():
            count = len(block.rows), constant_iterations(block.column, TENSOR_CORE)
            if count[0] % 2 or count[1] % 2 or count[0] * count[1] > 4 * MOST_INSTRUCTIONS:
                raise self._refusal(
                    f"expected even numbers of rows and columns a thread, and at most "
                    f"{MOST_INSTRUCTIONS} instructions, got {count[0]} and {count[1]}"
                )
        return list(found.values())

    def _block(self, stmt: Stmt, loops: Sequence[For], y: Var, x: Var) -> _Block:
        """Return the rows of one virtual thread, from one store."""
        factors = product_factors(stmt)
        if factors is None:
            raise self._refusal(f"expected a sum of products of {FACTORS}, got {stmt}")
        total, *pair = factors
        depth, extents = depth_of(pair[0].buffer.dtype), [each.iterations for each in loops]
        if extents[0] != depth or any(each.kind is not ForKind.SERIAL for each in loops):
            raise self._refusal(
                f"expected {depth} steps around plain loops, got loops of {extents}"
            )
        for left, right in (pair, pair[::-1]):
            of_left, of_right = (
                self.simplifier.form_of(each.indices[0]).vars for each in (left, right)
            )
            columns = [each for each in loops[1:] if each.var in of_right - of_left]
            rows = [each for each in loops[1:] if each.var in of_left - of_right]
            if x in of_left or y in of_right or len(columns) != 1:
                continue
            if len(rows) == len(loops) - 2:
                places = [{rows[0].var: constant(i)} for i in _range(rows[0])] if rows else [{}]
                made = [_Row(total, left, place) for place in places]
                return _Block(loops[0].var, columns[0], right, made)
        raise self._refusal(
            "expected one factor that is the same for all threads along threadIdx.x, one for all "
            f"along threadIdx.y, and a loop over columns, got {stmt}"
        )

    def _lanes(self) -> tuple[Var, Var]:
        """Return the thread axes that count rows and columns within a warp."""
        found = {t.tag: t for t in self.draft.threads}
        y, x = found.get("threadIdx.y"), found.get("threadIdx.x")
        if y is None or x is None or (y.count, x.count) != (ROWS, COLUMNS):
            counts = [None if axis is None else axis.count for axis in (y, x)]
            raise self._refusal(
                f"expected {ROWS} threads along threadIdx.y and {COLUMNS} along threadIdx.x, got "
                f"{counts}"
            )
        return y.var, x.var

    def _refusal(self, why: str) -> LoweringError:
        return LoweringError(f"{TENSOR_CORE}: {self.draft.stage}: {why}")


def _computes_several(loop: For) -> bool:
    """Return whether a loop stores to several buffers, so that it is no nest of products."""
    return len({node.buffer for node in walk(loop) if isinstance(node, Store)}) > 1


def _range(loop: For) -> range:
    return range(constant_iterations(loop, TENSOR_CORE))


def depth_of(dtype: str) -> int:
    """Return the steps of the reduction of one instruction, by dtype of the operands."""
    return _ROW_BYTES * 8 // bits_of(dtype)


def product_factors(stmt: Stmt) -> tuple[Store, Load, Load] | None:
    """Return a store ``t[i] = t[i] + float32(a) * float32(b)``, a and b; None if it is another.

    Of float32 it is ``t[i] = t[i] + tf32(a) * tf32(b)``.
    """
    match stmt:
        case Store(total, (place,), Add(Load(same, (where,)), Mul(a, b))):
            pass
        case _:
            return None
    pair = _narrow(a), _narrow(b)
    if total is not same or place is not where or total.scope != "local":
        return None
    if total.dtype != "float32" or pair[0] is None or pair[1] is None:
        return None
    if pair[0].buffer.dtype != pair[1].buffer.dtype:
        return None
    return stmt, pair[0], pair[1]


def _narrow(value: Expr) -> Load | None:
    """Return the element of a 16-bit float, or that is cut to TF32, that a value is."""
    match value:
        case Cast(Load() as load) | Call(te_math.TF32, (Load() as load,)):
            return load if load.buffer.dtype in INSTRUCTIONS else None
        case _:
            return None
