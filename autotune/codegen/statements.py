"""Statements as C text."""

from __future__ import annotations

from weakref import proxy

from autotune.codegen.dialect import Dialect
from autotune.codegen.distributed_fills import DISTRIBUTED_FILLS, has_distributed_fills
from autotune.codegen.expressions import FACTORS, SHIFT, SUM, UNARY, ExpressionPrinter
from autotune.codegen.guarded_loads import GUARDED_LOADS, has_guarded_loads
from autotune.codegen.identifiers import Names
from autotune.codegen.lane_loops import MOST_STEPS, NARROWEST, lane_loop
from autotune.codegen.masked_halves import MASKED_HALVES, has_masked_halves
from autotune.codegen.reordered_sums import REORDERED_SUMS, has_reordered_sums
from autotune.codegen.vectors import VectorPrinter, lanes_stored
from autotune.codegen.zero_fill import COPY_OR_ZERO, zero_filled
from autotune.errors import LoweringError
from autotune.ir import (
    Add,
    Allocate,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Buffer,
    Cast,
    Evaluate,
    Expr,
    For,
    ForKind,
    If,
    IntImm,
    LetStmt,
    Load,
    Mul,
    Seq,
    Stmt,
    Store,
    Sub,
    While,
    as_expr,
)
from autotune.ir.dispatch import Dispatcher
from autotune.kernel.kernel import item_bytes
from autotune.utils.math import round_up

INDENT = "  "
# The C type of loop variables and thread indices. Lowering refuses buffers that it cannot index.
INDEX_TYPE = "int"
# The most iterations that `#pragma GCC unroll` takes; the compiler stops far earlier by itself.
MOST_UNROLLED = 65534
# Operators whose assignment form says the same in fewer words.
_UPDATES = {Add: "+", Sub: "-", Mul: "*"}
# What GCC must not do, and which functions it would do it to.
_PRAGMAS = (
    (GUARDED_LOADS, has_guarded_loads),
    (REORDERED_SUMS, has_reordered_sums),
    (MASKED_HALVES, has_masked_halves),
    (DISTRIBUTED_FILLS, has_distributed_fills),
)


class StatementPrinter(Dispatcher):
    """Prints the body of one function.

    Args:
        dialect: the tables.
        names: holds the parameters and thread indices already.
        needs: collects the headers and helpers that the text needs.

    Attributes:
        lines: the text so far.
        shared: the shared arrays met, whose declarations belong at the top of the kernel.
    """

    def __init__(self, dialect: Dialect, names: Names, needs: set[str]) -> None:
        self.dialect = dialect
        self.names = names
        self.needs = needs
        self.shared: list[Buffer] = []
        self.expressions = ExpressionPrinter(dialect, names, needs)
        # A weak reference: with a cycle the collector would have to free all that was printed.
        self.vectors = VectorPrinter(self.expressions, proxy(self))
        self.lines: list[str] = []
        self.depth = 1
        self.freed: list[list[str]] = []
        self.in_pragma = False  # of OpenMP, in which no loop can be parallel
        self.in_words: set[Buffer] = set()  # read by words of several elements

    def line(self, text: str) -> None:
        """Write one line at the present depth."""
        self.lines.append(INDENT * self.depth + text)

    def print(self, stmt: Stmt) -> None:
        """Write a statement."""
        self.methods[type(stmt)](self, stmt)

    def generic(self, node: Stmt) -> None:
        """Refuse what lowering should have replaced."""
        raise LoweringError(f"no C text for the statement {type(node).__name__}")

    def body(self, stmt: Stmt) -> None:
        """Write the body of the function."""
        for pragma, needed in _PRAGMAS:
            if pragma in self.dialect.helpers and needed(stmt):
                self.needs.add(pragma)
        self.depth -= 1
        self.block(stmt)

    def block(self, stmt: Stmt) -> None:
        """Write a statement one level deeper, in a scope of its own."""
        self.open()
        self.print(stmt)
        self.close()

    def open(self) -> None:
        """Begin a scope."""
        self.depth += 1
        self.names.enter()
        self.freed.append([])

    def close(self) -> None:
        """End a scope: what was taken from the heap in it is given back."""
        for name in reversed(self.freed.pop()):
            self.line(f"free({name});")
        self.names.leave()
        self.depth -= 1

    # -- structure ---------------------------------------------------------------------------

    def visit_Seq(self, node: Seq) -> None:
        """Write statements one after another."""
        for stmt in node.stmts:
            self.print(stmt)

    def visit_For(self, node: For) -> None:
        """Write a loop; its kind is a pragma in front."""
        if node.kind in (ForKind.THREAD, ForKind.VTHREAD):
            raise AssertionError(f"loop {node.var.name!r} is left of kind {node.kind.value}")
        extent = self.expressions.text(node.extent, SHIFT)
        outermost_parallel = node.kind is ForKind.PARALLEL and not self.in_pragma
        if node.kind is ForKind.VECTORIZED and self.vector_loop(node):
            return
        if outermost_parallel:
            self.line("#pragma omp parallel for")
        elif node.kind is ForKind.VECTORIZED:
            self.line("#pragma omp simd")
        elif node.kind is ForKind.UNROLLED and self.can_be_marked(node.extent):
            self.line(self.dialect.unroll.format(extent))
        self.names.enter()
        i = self.declare(node.var, node.var.name)
        self.line(f"for ({INDEX_TYPE} {i} = 0; {i} < {extent}; ++{i}) {{")
        before = self.in_pragma
        self.in_pragma |= outermost_parallel or node.kind is ForKind.VECTORIZED
        self.block(node.body)
        self.in_pragma = before
        self.line("}")
        self.names.leave()

    def visit_While(self, node: While) -> None:
        """Write a loop that a condition ends."""
        self.line(f"while ({self.expressions.text(node.cond)}) {{")
        self.block(node.body)
        self.line("}")

    def can_be_marked(self, extent: Expr) -> bool:
        """Return whether a loop can be marked: some pragmas say how often it runs."""
        if "{}" not in self.dialect.unroll:
            return True
        return isinstance(extent, IntImm) and extent.value <= MOST_UNROLLED

    def vector_loop(self, node: For) -> bool:
        """Write a loop in vector types; return whether that can be done."""
        if not self.dialect.array_alignment:
            return False
        self.names.enter()
        i = self.declare(node.var, node.var.name)
        made = lane_loop(node, self.expressions)
        if made is not None:
            if made.steps <= MOST_STEPS:
                self.line(self.dialect.unroll.format(made.steps))
            extent = self.expressions.text(node.extent, SHIFT)
            step = f"{i} += LANES({made.type})"
            self.line(f"for ({INDEX_TYPE} {i} = 0; {i} < {extent}; {step}) {{")
            self.line(f"{INDENT}{made.statement}")
            self.line("}")
        self.names.leave()
        return made is not None

    def visit_If(self, node: If) -> None:
        """Write an if; an else that is an if is written as ``else if``."""
        copy = zero_filled(node)
        if copy is not None:
            self.needs.update(("cuda_pipeline.h", COPY_OR_ZERO))
            to, source = self._ends(copy)
            self.line(f"{COPY_OR_ZERO}({to}, {source}, {self.expressions.text(node.cond)});")
            return
        self.line(f"if ({self.expressions.text(node.cond)}) {{")
        self.block(node.then)
        other = node.other
        while isinstance(other, If):
            self.line(f"}} else if ({self.expressions.text(other.cond)}) {{")
            self.block(other.then)
            other = other.other
        if other is not None:
            self.line("} else {")
            self.block(other)
        self.line("}")

    def visit_LetStmt(self, node: LetStmt) -> None:
        """Write a named value."""
        value = self.expressions.text(node.value)
        kind = self.expressions.scalar_of(node.var.dtype).value
        self.vectors.define(node.var, node.value)
        self.line(f"const {kind} {self.declare(node.var, node.var.name)} = {value};")
        self.print(node.body)

    def declare(self, thing: object, wanted: str) -> str:
        """Name a variable; texts kept under an earlier name of it are forgotten."""
        before = self.names.get(thing)
        name = self.names.declare(thing, wanted)
        if before is not None and before != name:
            self.expressions.kept.clear()
        return name

    def visit_Allocate(self, node: Allocate) -> None:
        """Write the declaration of a local array, then what uses it."""
        if node.buffer.scope == "shared":
            self.names.declare(node.buffer, node.buffer.name, outermost=True)
            self.shared.append(node.buffer)
        else:
            self.local_array(node.buffer)
        self.print(node.body)

    def local_array(self, buffer: Buffer) -> None:
        """Declare an array of this function; a large one is taken from the heap."""
        scalar = self.expressions.scalar_of(buffer.dtype)
        known = elements_of(buffer)
        fragment = self.expressions.fragments.get(buffer)
        if fragment is not None:
            count = known // fragment.elements
            name = self.declare(buffer, buffer.name)
            self.line(f"{fragment.type(scalar.storage)} {name}[{count}];")
            return
        size = str(known) if known else self.expressions.text(as_expr(buffer.shape[0]), FACTORS)
        name = self.declare(buffer, buffer.name)
        is_large = 0 < self.dialect.heap_bytes < known * item_bytes(buffer.dtype)
        aligned = self._alignment(known * item_bytes(buffer.dtype))
        if known and not is_large:
            before = "alignas(16) " if buffer in self.in_words and not aligned else ""
            self.line(f"{before}{scalar.storage} {name}[{size}]{aligned};")
            return
        self.needs.add("stdlib.h")
        kind = scalar.storage
        taken = f"malloc(sizeof({kind}) * {size})"
        if known and self.dialect.array_alignment:
            unit = self.dialect.array_alignment
            whole = round_up(known * item_bytes(buffer.dtype), unit)
            taken = f"aligned_alloc({unit}, {whole})"
        self.line(f"{kind}* const {name} = ({kind}*){taken};")
        self.freed[-1].append(name)

    def _alignment(self, size: int) -> str:
        """Return the alignment of a local array, so that no vector crosses a cache line."""
        most = self.dialect.array_alignment
        fits = min(size & -size, most) if size else 0
        return f" __attribute__((aligned({fits})))" if fits >= NARROWEST else ""

    # -- effects -----------------------------------------------------------------------------

    def visit_Store(self, node: Store) -> None:
        """Write a store; a vector is taken apart."""
        if lanes_stored(node) > 1:
            self.vectors.store(node)
            return
        scalar = self.expressions.scalar_of(node.buffer.dtype)
        target = self.expressions.element(node.buffer, node.indices[0])
        value = node.value
        if scalar.store == "{}":
            self.line(self._update(target, value) or f"{target} = {self.expressions.text(value)};")
            return
        if isinstance(value, Cast) and scalar.value == "float" and value.value.dtype == "float32":
            value = value.value  # storing rounds anyway
        text = self.expressions.text(value, 0 if scalar.store.endswith("({})") else UNARY)
        self.line(f"{target} = {scalar.store.format(text)};")

    def _update(self, target: str, value: Expr) -> str | None:
        """Return ``a += b;`` for ``a = a + b``, if it is one."""
        symbol = _UPDATES.get(type(value))  # type: ignore[arg-type]
        if symbol is None or self.expressions.scalar_of(value.dtype).promotes:
            return None
        first = value.a  # type: ignore[attr-defined]
        if not isinstance(first, Load) or self.expressions.text(first) != target:
            return None
        return f"{target} {symbol}= {self.expressions.text(value.b)};"  # type: ignore[attr-defined]

    def visit_Evaluate(self, node: Evaluate) -> None:
        """Write an expression for its effect; a constant has none."""
        if not isinstance(node.value, IntImm):
            self.line(f"{self.expressions.text(node.value)};")

    def visit_Barrier(self, node: Barrier) -> None:
        """Write a barrier."""
        text = self.dialect.barriers.get(node.scope)
        if text is None:
            raise LoweringError(f"no barrier of scope {node.scope!r} on this target")
        self.line(text)

    def visit_AsyncCopy(self, node: AsyncCopy) -> None:
        """Write the beginning of an asynchronous copy."""
        self.needs.add("cuda_pipeline.h")
        to, source = self._ends(node)
        self.line(f"__pipeline_memcpy_async({to}, {source}, {node.bytes});")

    def _ends(self, node: AsyncCopy) -> list[str]:
        """Return where a copy begins to write, and to read."""
        ends = ((node.dst, node.dst_index), (node.src, node.src_index))
        return [f"{self.names[b]} + {self.expressions.text(index, SUM)}" for b, index in ends]

    def visit_AsyncCommit(self, node: AsyncCommit) -> None:
        """Write the end of a group of asynchronous copies."""
        self.needs.add("cuda_pipeline.h")
        self.line("__pipeline_commit();")

    def visit_AsyncWait(self, node: AsyncWait) -> None:
        """Write the wait for groups of asynchronous copies."""
        self.needs.add("cuda_pipeline.h")
        self.line(f"__pipeline_wait_prior({node.pending});")


def elements_of(buffer: Buffer) -> int:
    """Return how many elements a buffer spans, padding of its rows included.

    0 if that is known only when the function is called.
    """
    if not buffer.shape:
        return 1
    extent, stride = buffer.shape[0], buffer.strides[0]
    return extent * stride if isinstance(extent, int) and isinstance(stride, int) else 0
