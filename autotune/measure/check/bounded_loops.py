"""The reference of a tensor expression: plain loops in C for values and for their error bounds.

Nothing of lowering or code generation is used, so their faults do not cancel. Loops are in the
order of the axes, on all cores; a reduction is done for a block of elements of the innermost axis
at a time, one term after another for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from autotune.errors import KernelError, MeasureError
from autotune.ir import IntImm, IterVar, ProducerLoad, Reduce, is_float
from autotune.kernel import Argument, Kernel, KernelCall
from autotune.measure.check.bounded_expr import Bounded, BoundedWriter
from autotune.measure.check.bounded_reduction import State, state_of
from autotune.measure.check.bounded_text import C_TYPES, HELPERS
from autotune.measure.check.rounding import LARGEST, SHORT
from autotune.te import ComputeOp, Tensor, post_order
from autotune.utils.math import product

# Elements of the innermost axis whose reductions go on together: they fit the first cache.
_BLOCK = 64
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
        MeasureError: an extent is symbolic, or the error of a function is not known.
    """
    loops = _Loops(sums)
    for tensor in tensors:
        if not isinstance(tensor.op, ComputeOp):
            loops.add_input(tensor)
    for op in post_order(t.op for t in tensors):
        if isinstance(op, ComputeOp):
            loops.add(op)
        elif op.outputs[0] not in loops.stored:
            raise MeasureError(f"{op.outputs[0]} is read, but it is no argument")
    return loops.kernel([t for t in tensors if isinstance(t.op, ComputeOp)])


class _Loops:
    """Writes the computes one after another."""

    def __init__(self, sums: str | None) -> None:
        self.sums = sums
        self.stored: dict[Tensor, _Stored] = {}
        self.writer = BoundedWriter(self._load)
        self.inputs: list[Argument] = []
        self.arrays: dict[str, tuple[str, int]] = {}

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
        loops = [self._loop(axis, f"i{n}") for n, axis in enumerate(op.axis)]
        with self._nested(loops, len(loops) - 1 or 1):
            self._bind(op.axis, [f"i{n}" for n in range(len(loops))])
            self._store(op, [self.writer.value(e) for e in op.body])

    def _reduction(self, op: ComputeOp, first: Reduce) -> None:
        """Data axes, a block of the innermost that has one, the terms, the block again."""
        names = {axis: f"i{n}" for n, axis in enumerate(op.axis)}
        inner = next((a for a in reversed(op.axis) if _extent(a) > 1), None)
        width = 1 if inner is None else _extent(inner)
        block = min(width, _BLOCK)
        outer = [self._loop(a, names[a]) for a in op.axis if a is not inner]
        outer.append(f"for (int64_t b = 0; b < {width}; b += {block})")
        each = "for (int64_t j = 0; j < n; j++)"
        terms = [self._loop(a, f"r{n}") for n, a in enumerate(first.axes)]
        where = ["(b + j)" if a is inner else names[a] for a in op.axis]
        state = state_of(first, _terms(first), self.sums)
        with self._nested(outer, len(outer)):
            line = f"const int64_t n = b + {block} < {width} ? {block} : {width} - b;"
            self.writer.lines.append(line)
            self.writer.lines.extend(state.declared(block))
            with self.writer.block(each):
                self._bind(op.axis, where)
                state.begin(self.writer)
            with self._nested(terms), self.writer.block(each):
                self._bind(op.axis, where)
                self._bind(first.axes, [f"r{n}" for n in range(len(terms))])
                state.add(self.writer)
            with self.writer.block(each):
                self._bind(op.axis, where)
                self._store(op, self._chosen(op, state))

    def _chosen(self, op: ComputeOp, state: State) -> list[Bounded]:
        results = state.end(self.writer)
        return [results[e.value_index] for e in op.body if isinstance(e, Reduce)]

    def _loop(self, axis: IterVar, name: str) -> str:
        return f"for (int64_t {name} = 0; {name} < {_extent(axis)}; {name}++)"

    @contextmanager
    def _nested(self, loops: Sequence[str], parallel: int = 0) -> Iterator[None]:
        """Write loops in one another, so many of which share the cores."""
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
            offset = f"({offset} * {_extent(axis)} + ({var.text} - {least}))"
        for tensor, value in zip(op.outputs, values, strict=True):
            at = self._reserve(tensor, exact=not value.error)
            self.writer.lines.append(f"{at.value}[{offset}] = {value.text};")
            if at.error:
                most = LARGEST.get(tensor.dtype, 0.0)
                error = f"within({value.text}, {value.error}, {most!r})" if most else value.error
                self.writer.lines.append(f"{at.error}[{offset}] = {error};")

    def _reserve(self, tensor: Tensor, exact: bool) -> _Stored:
        number, size = len(self.stored), product(_shape(tensor))
        at = self.stored[tensor] = _Stored(f"value{number}", "" if exact else f"error{number}")
        self.arrays[at.value] = C_TYPES[tensor.dtype], size
        if at.error:
            self.arrays[at.error] = "double", size
        return at

    def _load(self, node: ProducerLoad, offset: str) -> tuple[str, str]:
        at = self.stored[node.tensor]
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
        memory = {**C_TYPES, "float32": "float"}
        params = ", ".join(
            f"const {memory[a.dtype]} *restrict {a.name}"
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


def _extent(axis: IterVar) -> int:
    if not isinstance(axis.extent, IntImm):
        raise MeasureError(f"axis {axis.name!r}: its extent is known only when it runs")
    return axis.extent.value


def _terms(reduce: Reduce) -> int:
    return product(_extent(axis) for axis in reduce.axes)
