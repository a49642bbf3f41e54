"""The reference of a tensor expression: plain loops in C for values and for their error bounds.

Nothing of lowering or code generation is used, so their faults do not cancel. Loops are in the
order of the axes, on all cores. A reduction is done for a block of elements of the two innermost
axes at a time, one term after another for each, and reads copies of tensors that have the
innermost axis last where theirs is elsewhere: then neighbours are read together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod

from autotune.errors import KernelError, MeasureError
from autotune.ir import IterVar, ProducerLoad, Reduce, is_float, reads_in
from autotune.ir.structure import walk
from autotune.kernel.kernel import Argument, Kernel, KernelCall
from autotune.measure.check.bounded_block import Block, constant_extent
from autotune.measure.check.bounded_expr import Bounded, BoundedWriter
from autotune.measure.check.bounded_reduction import ReductionState, state_of
from autotune.measure.check.bounded_text import C_TYPES, HELPERS, memory_type
from autotune.measure.check.rounding import LARGEST, SHORT
from autotune.te import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor, post_order
from autotune.te.extern import ExternOp
from autotune.te.scan import step_ops
from autotune.te.scan_reads import of_own_row

# Terms that are added to an element while it is in a register, where they divide an axis.
_UNROLLED = (4, 3, 2)
# A tensor is copied where its elements are read so many times on average.
_COPY_FROM = 8
# Integers wrap, as those of every kernel do.
_FLAGS = ("-fwrapv", "-fno-math-errno")


@dataclass(frozen=True)
class BoundedKernel:
    """The C function of a reference and what it writes.

    Attributes:
        kernel: takes the placeholders in the order of the tensors; 16-bit floats as float32.
        outputs: for each output, among all that is written, the position of its value and of its
            bound; None where the value is exact.
    """

    kernel: Kernel
    outputs: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class _Stored:
    """The names of a tensor's arrays; no ``error`` where it is exact."""

    value: str
    error: str = ""


def bounded_kernel(tensors: Sequence[Tensor], sums: str | None = None) -> BoundedKernel:
    """Return what computes the outputs among ``tensors`` with their bounds.

    Args:
        tensors: the arguments.
        sums: dtype in which kernels keep their sums; by default that of the expression.

    Raises:
        MeasureError: an extent is symbolic, the error of a function is not known, or a step of a
            recurrence needs more than one row of what it computes.
    """
    loops = _Loops(sums)
    for tensor in tensors:
        if isinstance(tensor.op, PlaceholderOp):
            loops.add_input(tensor)
    order = post_order(t.op for t in tensors)
    steps = {op: _steps(op) for op in order if isinstance(op, ScanOp)}
    later: set[Operation] = {one for ops in steps.values() for one in ops}
    later.update(state.op for op in steps for state in op.state_placeholder)
    for op in order:
        if isinstance(op, ScanOp):
            loops.add_scan(op, steps[op])
        elif op in later:
            continue
        elif isinstance(op, ComputeOp):
            loops.add(op)
        elif isinstance(op, ExternOp):
            raise MeasureError(f"{op.name} is a te.extern, whose statements are not followed")
        elif op.outputs[0] not in loops.stored:
            raise MeasureError(f"{op.outputs[0]} is read, but it is no argument")
    return loops.kernel(outputs_among(tensors))


def outputs_among(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the arguments that are computed."""
    return [t for t in tensors if not isinstance(t.op, PlaceholderOp)]


def _steps(op: ScanOp) -> list[ComputeOp]:
    """Return what each step computes, a row of each."""
    ops = step_ops(op.update, op.state_placeholder)
    own = of_own_row(ops, op.update)
    for other in ops:
        if other not in own:
            raise MeasureError(
                f"{op.name} is a te.scan whose steps need more of {other.name} than the row of "
                "their own number, of which there is no reference; compare results with your own"
            )
    return own


class _Loops:
    """Writes the computes one after another."""

    def __init__(self, sums: str | None) -> None:
        self.sums = sums
        self.stored: dict[Tensor, _Stored] = {}
        self.writer = BoundedWriter(self._load)
        self.inputs: list[Argument] = []
        self.arrays: dict[str, tuple[str, int]] = {}
        # The axis along which elements are computed together, and copies that have it last.
        self._inner: IterVar | None = None
        self._turned: dict[tuple[Tensor, int], _Stored] = {}
        # In the loop over the rows of a recurrence, the number of the row; elsewhere empty.
        self._row = ""

    def add_input(self, tensor: Tensor) -> None:
        """Take a placeholder as an argument."""
        dtype = "float32" if tensor.dtype in SHORT else tensor.dtype
        name = f"x{len(self.inputs)}"
        self.inputs.append(Argument(name, _shape(tensor), dtype))
        self.stored[tensor] = _Stored(name)

    def add(self, op: ComputeOp) -> None:
        """Write the loops of a compute."""
        first = op.body[0]
        if isinstance(first, Reduce):
            self._reduction(op, first)
            return
        names = [f"i{n}" for n in range(len(op.axis))]
        loops = [self._loop(axis, name) for axis, name in zip(op.axis, names, strict=True)]
        if self._row:
            names[0] = self._row
            del loops[0]
        with self._nested(loops, len(loops) - 1 or 1):
            self._bind(op.axis, names)
            self._store(op, [self.writer.value(e) for e in op.body])

    def add_scan(self, op: ScanOp, steps: Sequence[ComputeOp]) -> None:
        """Write a recurrence: its first rows, then a loop over the others."""
        given = op.init[0].shape[0]
        for init, state, update, result in zip(
            op.init, op.state_placeholder, op.update, op.outputs, strict=True
        ):
            at, first = self._reserve(state, exact=False), self.stored[init]
            self.stored[update] = self.stored[result] = at
            with self._nested([f"for (int64_t i = 0; i < {prod(_shape(init))}; i++)"], 1):
                error = f"{first.error}[i]" if first.error else "0.0"
                self.writer.lines.append(f"{at.value}[i] = {first.value}[i];")
                self.writer.lines.append(f"{at.error}[i] = {error};")
        changing = {state.op for state in op.state_placeholder}.union(steps)
        for one in steps:
            if isinstance(one.body[0], Reduce):
                self._inner = Block.of(one.axis, "t").inner
                self._turn_what_is_read(one, one.body[0], changing)
        self._row = "t"
        with self.writer.block(f"for (int64_t t = {given}; t < {_shape(op.outputs[0])[0]}; t++)"):
            for one in steps:
                self.add(one)
        self._row = ""

    def _reduction(self, op: ComputeOp, first: Reduce) -> None:
        """Blocks of elements, and for each the terms one after another."""
        block = Block.of(op.axis, self._row)
        self._inner = block.inner
        if not self._row:
            self._turn_what_is_read(op, first)
        outer = [*block.begins, *(self._loop(a, block.names[a]) for a in block.others)]
        state = state_of(first, _terms(first), self.sums)
        with self._nested(outer, len(outer)):
            self.writer.lines.extend(block.sizes)
            self.writer.lines.extend(
                f"{kind} {name}_of[{block.elements}];" for name, kind in state.arrays
            )
            with self._each(op, block, state):
                state.begin(self.writer)
            self._add_terms(op, first, block, state)
            with self._each(op, block, state):
                self._store(op, self._chosen(op, state))
        self._inner = None

    def _add_terms(
        self, op: ComputeOp, first: Reduce, block: Block, state: ReductionState
    ) -> None:
        names = [f"r{n}" for n in range(len(first.axes))]
        last = constant_extent(first.axes[-1])
        together = next((n for n in _UNROLLED if last % n == 0), 1)
        loops = [self._loop(a, n) for a, n in zip(first.axes, names, strict=True)]
        loops[-1] = (
            f"for (int64_t {names[-1]} = 0; {names[-1]} < {last}; {names[-1]} += {together})"
        )
        with self._nested(loops), self._each(op, block, state):
            for ahead in range(together):
                with self.writer.block(""):
                    where = [*names[:-1], f"({names[-1]} + {ahead})"]
                    self._bind(first.axes, where)
                    state.add(self.writer)

    @contextmanager
    def _each(self, op: ComputeOp, block: Block, state: ReductionState) -> Iterator[None]:
        """Write loops over the elements of a block, whose state has the index ``j`` in them."""
        with self.writer.block("for (int64_t h = 0; h < height; h++)"):
            self.writer.lines.extend(
                f"{kind} *restrict {name} = {name}_of + h * {block.width};"
                for name, kind in state.arrays
            )
            with self.writer.block("for (int64_t j = 0; j < width; j++)"):
                self._bind(op.axis, [block.where(a) for a in op.axis])
                yield

    def _turn_what_is_read(
        self, op: ComputeOp, first: Reduce, changing: Collection[Operation] = ()
    ) -> None:
        """Copy the tensors whose elements along the innermost axis are far apart."""
        work = prod(constant_extent(a) for a in op.axis) * _terms(first)
        for node in reads_in(*first.sources, first.condition):
            key, shape = (node.tensor, self._moved(node)), _shape(node.tensor)
            if node.tensor.op in changing:
                continue
            if key[1] is None or key in self._turned or work < _COPY_FROM * prod(shape):
                continue
            self._turned[key[0], key[1]] = self._copy(self.stored[node.tensor], shape, key[1])

    def _moved(self, node: ProducerLoad) -> int | None:
        """Return the one index that is along the innermost axis; None if it is the last one."""
        if self._inner is None:
            return None
        along = [n for n, e in enumerate(node.indices) if self._inner.var in walk(e)]
        return along[0] if len(along) == 1 and along[0] < len(node.indices) - 1 else None

    def _copy(self, of: _Stored, shape: tuple[int, ...], moved: int) -> _Stored:
        """Write a copy of a tensor that has one of its axes last."""
        rows, extent, columns = prod(shape[:moved]), shape[moved], prod(shape[moved + 1 :])
        copies = {
            name: f"turned{len(self.arrays)}_{name}" for name in (of.value, of.error) if name
        }
        for name, copy in copies.items():
            given = next((memory_type(a.dtype) for a in self.inputs if a.name == name), "")
            self.arrays[copy] = given or self.arrays[name][0], prod(shape)
            loops = [
                f"for (int64_t {i} = 0; {i} < {n}; {i}++)"
                for i, n in (("p", rows), ("c", columns), ("m", extent))
            ]
            with self._nested(loops, 2):
                to, source = (
                    f"(p * {columns} + c) * {extent} + m",
                    f"(p * {extent} + m) * {columns} + c",
                )
                self.writer.lines.append(f"{copy}[{to}] = {name}[{source}];")
        return _Stored(copies[of.value], copies.get(of.error, ""))

    def _chosen(self, op: ComputeOp, state: ReductionState) -> list[Bounded]:
        results = state.end(self.writer)
        return [results[e.value_index] for e in op.body if isinstance(e, Reduce)]

    def _loop(self, axis: IterVar, name: str) -> str:
        return f"for (int64_t {name} = 0; {name} < {constant_extent(axis)}; {name}++)"

    @contextmanager
    def _nested(self, loops: Sequence[str], parallel: int = 0) -> Iterator[None]:
        """Write nested loops, the outermost of which are distributed among the cores."""
        if parallel and loops:
            self.writer.lines.append(f"#pragma omp parallel for collapse({parallel})")
        with ExitStack() as stack:
            for head in loops:
                stack.enter_context(self.writer.block(head))
            if not loops:
                stack.enter_context(self.writer.block(""))
            yield

    def _bind(self, axes: Sequence[IterVar], counters: Sequence[str]) -> None:
        for axis, counter in zip(axes, counters, strict=True):
            least = self.writer.value(axis.dom.min) if axis.dom else None
            text = counter if least is None else f"({counter} + {least.text})"
            self.writer.bind(axis.var, Bounded(text, axis.var.dtype, index=True))

    # -- memory ------------------------------------------------------------------------------

    def _store(self, op: ComputeOp, values: Sequence[Bounded]) -> None:
        offset = "0"
        for axis in op.axis:
            var = self.writer.value(axis.var)
            least = self.writer.value(axis.dom.min).text if axis.dom else "0"
            offset = f"({offset} * {constant_extent(axis)} + ({var.text} - {least}))"
        for tensor, value in zip(op.outputs, values, strict=True):
            # An update has the place of its state.
            at = self.stored.get(tensor) or self._reserve(tensor, exact=not value.error)
            self.writer.lines.append(f"{at.value}[{offset}] = {value.text};")
            if at.error:
                most = LARGEST.get(tensor.dtype, 0.0)
                error = f"within({value.text}, {value.bound}, {most!r})" if most else value.bound
                self.writer.lines.append(f"{at.error}[{offset}] = {error};")

    def _reserve(self, tensor: Tensor, exact: bool) -> _Stored:
        number, size = len(self.stored), prod(_shape(tensor))
        at = self.stored[tensor] = _Stored(f"value{number}", "" if exact else f"error{number}")
        self.arrays[at.value] = C_TYPES[tensor.dtype], size
        if at.error:
            self.arrays[at.error] = "double", size
        return at

    def _load(self, node: ProducerLoad, indices: Sequence[str]) -> tuple[str, str]:
        at, order = self.stored[node.tensor], list(range(len(indices)))
        moved = self._moved(node)
        if moved is not None and (node.tensor, moved) in self._turned:
            at = self._turned[node.tensor, moved]
            order.append(order.pop(moved))
        offset = ""
        for n in order:
            offset = (
                f"({offset} * {node.tensor.shape[n]} + {indices[n]})" if offset else indices[n]
            )
        offset = offset or "0"  # of a tensor without dimensions
        return f"{at.value}[{offset}]", f"{at.error}[{offset}]" if at.error else ""

    # -- the whole ---------------------------------------------------------------------------

    def kernel(self, outputs: Sequence[Tensor]) -> BoundedKernel:
        """Return the function that writes these outputs."""
        written: list[Argument] = []
        places = []
        for tensor in outputs:
            at, shape = self.stored[tensor], _shape(tensor)
            dtype = "float64" if is_float(tensor.dtype) else tensor.dtype
            places.append((len(written), len(written) + 1 if at.error else None))
            written.append(Argument(at.value, shape, dtype, "out"))
            if at.error:
                written.append(Argument(at.error, shape, "float64", "out"))
        args = (*self.inputs, *written)
        try:
            call = KernelCall("reference", tuple(a.name for a in args))
            text = self._text(args)
            kernel = Kernel("reference", "c", text, args, (call,), flags=_FLAGS)
        except KernelError as error:
            raise MeasureError(f"the reference cannot be written: {error}") from error
        return BoundedKernel(kernel, tuple(places))

    def _text(self, args: Sequence[Argument]) -> str:
        params = ", ".join(
            f"const {memory_type(a.dtype)} *restrict {a.name}"
            if a.role == "in"
            else f"{C_TYPES[a.dtype]} *restrict {a.name}"
            for a in args
        )
        given = {a.name for a in args}
        local = {name: array for name, array in self.arrays.items() if name not in given}
        made = [
            f"{kind} *restrict {name} = malloc({size} * sizeof *{name});\nif (!{name}) abort();"
            for name, (kind, size) in local.items()
        ]
        freed = [f"free({name});" for name in local]
        head = f"void reference({params}) {{"
        return "\n".join([HELPERS, head, *made, *self.writer.lines, *freed, "}", ""])


def _shape(tensor: Tensor) -> tuple[int, ...]:
    if not all(isinstance(n, int) for n in tensor.shape):
        raise MeasureError(f"{tensor}: its extents are known only when it runs")
    return tuple(n for n in tensor.shape if isinstance(n, int))


def _terms(reduce: Reduce) -> int:
    return prod(constant_extent(axis) for axis in reduce.axes)
