"""A lowered function as a `Kernel`: complete text, arguments, launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.codegen.dialect import Dialect
from autotune.codegen.expressions import THREADS
from autotune.codegen.extern_calls import buffers_in_words, calls_and_addresses, functions_called
from autotune.codegen.fragments import fragments_in
from autotune.codegen.identifiers import Names, legal
from autotune.codegen.outlines import Outlines, first_blocks
from autotune.codegen.statements import INDENT, INDEX_TYPE, StatementPrinter, elements_of
from autotune.errors import LoweringError
from autotune.ir import Buffer, Call, Var
from autotune.ir.address import Address
from autotune.kernel.kernel import Kernel, KernelCall, Launch, item_bytes
from autotune.lowering import LoweredFunction, LoweredKernel, lower_schedule
from autotune.target import Language, Limits, Target
from autotune.target.backends import of_language, part
from autotune.te import Schedule, Tensor
from autotune.utils.garbage import collection_paused
from autotune.utils.math import round_up

# The limit of static shared memory; more is dynamic, requested at launch.
_STATIC_SHARED_BYTES = 48 * 1024
_ALIGNMENT = 16
_LINE = 80
# How many blocks there are, where it is known only when the function is called.
BLOCKS = {f"blockIdx.{d}": f"(int)gridDim.{d}" for d in "xyz"}


@collection_paused()
def kernel_of_schedule(
    schedule: Schedule,
    args: Sequence[Tensor | Var],
    target: Target,
    name: str = "main",
    limits: Limits | None = None,
) -> Kernel:
    """Lower a schedule and print it in the language of a target.

    Args:
        schedule: what to build; it is not changed.
        args: the tensors that the function takes, inputs and outputs, in the caller's order, and
            numbers among them.
        target: decides the language.
        name: of the function.
        limits: of the device, to be kept; a kernel that breaks one is found early.

    Raises:
        LoweringError: the schedule cannot be lowered for the target, or uses instructions that it
            does not have.
        InstantiationError: the kernel would break a limit.
    """
    language = target.language
    function = lower_schedule(schedule, args, name, language, limits=limits)
    kernel = kernel_of_function(function, language)
    _check_arch(kernel, target)
    return kernel


def _check_arch(kernel: Kernel, target: Target) -> None:
    """Raise if a kernel needs another architecture than that of a target; any does to emulate."""
    needed = {flag.partition("=")[2] for flag in kernel.flags if flag.startswith("-arch=")}
    if target.emulate or target.arch is None or not needed:
        return
    if {arch.rstrip("a") for arch in needed} != {target.arch.rstrip("a")}:
        raise LoweringError(
            f"{kernel.name}: its instructions are those of {', '.join(needed)}, the target is "
            f"{target.arch}"
        )


@collection_paused()
def kernel_of_function(function: LoweredFunction, language: Language) -> Kernel:
    """Print a lowered function in a language, ``"c"`` or ``"cuda"``.

    Raises:
        LoweringError: the function can be printed only; the message says why.
    """
    function.check_finished()
    found = [calls_and_addresses(one.body) for one in function.kernels]
    called = functions_called(function, found)
    dialect: Dialect = part(of_language(language).dialect)
    needs: set[str] = set()
    names = Names(called)
    for each in (*function.args, *function.sizes, *function.workspaces):
        names.declare(each, each.name)
    texts, calls = [], []
    for one, nodes in zip(function.kernels, found, strict=True):
        printer = _KernelPrinter(one, nodes, function, dialect, names, needs, called)
        texts.append(printer.text())
        calls.append(printer.call())
    outlines = Outlines(function, names)
    return Kernel(
        name=function.name,
        language=language,
        source="\n".join([*_preamble(dialect, needs), *function.imports, *texts]),
        flags=tuple(flag for name, flag in dialect.flags.items() if name in needs),
        args=outlines.args(),
        calls=tuple(calls),
        workspace=outlines.workspace(),
        sizes=outlines.sizes(),
    )


def _preamble(dialect: Dialect, needs: set[str]) -> Iterator[str]:
    """Yield headers and helper functions that the text needs."""
    headers = [f"#include <{name}>\n" for name in dialect.headers if name in needs]
    if headers:
        yield "".join(headers)
    yield from (text for name, text in dialect.helpers.items() if name in needs)


class _KernelPrinter:
    """Prints one kernel of a function."""

    def __init__(
        self,
        kernel: LoweredKernel,
        nodes: Sequence[Call | Address],
        function: LoweredFunction,
        dialect: Dialect,
        outer: Names,
        needs: set[str],
        called: Sequence[str],
    ) -> None:
        self.kernel = kernel
        self.entry = legal(kernel.name)
        self.dialect = dialect
        self.names = Names(called)
        self.inputs = {
            b for b, role in zip(function.args, function.roles, strict=True) if role == "in"
        }
        # Functions of a script take addresses as they like.
        self.inputs -= {each.buffer for each in nodes if isinstance(each, Address)}
        for buffer in kernel.params:
            self.names.set(buffer, outer[buffer])
        self.body = StatementPrinter(dialect, self.names, needs)
        self.body.in_words = buffers_in_words(nodes)
        self.nodes = nodes
        self.dynamic_bytes = 0

    def text(self) -> str:
        """Return the text of the kernel."""
        kernel = self.kernel
        self.body.expressions.fragments = fragments_in(
            kernel.body, self.nodes, kernel.block, kernel.name
        )
        self.body.body(kernel.body)
        threads = 1
        for n in self.kernel.block:
            threads *= n
        head = self.dialect.entry.format(
            bounds=f"{threads}, {kernel.min_blocks}" if kernel.min_blocks else threads,
            name=self.entry,
            params=_join([self._parameter(b) for b in self.kernel.params]),
        )
        lines = [*self._shared_arrays(), *self._thread_indices(), *self.body.lines]
        return "\n".join([head, *lines, "}", ""])

    def call(self) -> KernelCall:
        """Return how the kernel is called; to be asked for after the text."""
        launch = Launch(first_blocks(self.kernel), self.kernel.block, self.dynamic_bytes)
        return KernelCall(self.entry, tuple(self.names[b] for b in self.kernel.params), launch)

    def _parameter(self, buffer: Buffer | Var) -> str:
        if isinstance(buffer, Var):
            return f"{self._number(buffer)} {self.names[buffer]}"
        kind = self.body.expressions.scalar_of(buffer.dtype).storage
        const = "const " if buffer in self.inputs else ""
        return f"{const}{kind}* {self.dialect.restrict} {self.names[buffer]}"

    def _number(self, var: Var) -> str:
        """Return the type of a number that is passed by value."""
        scalar = self.body.expressions.scalar_of(var.dtype)
        if var.dtype == "bfloat16" and scalar.storage != scalar.value:
            raise LoweringError(
                f"{self.entry}: number {var.name!r} of dtype bfloat16 cannot be passed by value "
                "on this target; make it a float32"
            )
        return scalar.storage

    def _thread_indices(self) -> Iterator[str]:
        printer = self.body.expressions
        extents = dict(zip(THREADS, (*self.kernel.grid, *self.kernel.block), strict=True))
        used = [(name, short) for name, short in THREADS.items() if name in printer.threads]
        yield from (f"{INDENT}const {INDEX_TYPE} {short} = {name};" for name, short in used)
        if printer.divides and self.dialect.assume:
            for name, short in used:
                extent = extents[name] if isinstance(extents[name], int) else BLOCKS[name]
                yield INDENT + self.dialect.assume.format(name=short, extent=extent)

    def _shared_arrays(self) -> Iterator[str]:
        """Yield declarations of shared arrays: static, or carved out of one dynamic array."""
        unit = self._alignment()
        sizes = [round_up(elements_of(b) * item_bytes(b.dtype), unit) for b in self.body.shared]
        if sum(sizes) > _STATIC_SHARED_BYTES:
            yield from self._dynamic_arrays(sizes)
            return
        # Aligned, the compiler joins neighbouring loads to vectors: a quarter of the instructions.
        for buffer in self.body.shared:
            kind = self.body.expressions.scalar_of(buffer.dtype).storage
            declared = f"{kind} {self.names[buffer]}[{elements_of(buffer)}]"
            yield f"{INDENT}__shared__ __align__({unit}) {declared};"

    def _alignment(self) -> int:
        """Return the bytes at whose multiples shared arrays begin."""
        asked = self.dialect.shared_alignment
        return max(_ALIGNMENT, *(n for name, n in asked.items() if name in self.body.needs), 0)

    def _dynamic_arrays(self, sizes: Sequence[int]) -> Iterator[str]:
        array = "unsigned char dynamic_shared[]"
        yield f"{INDENT}extern __shared__ __align__({self._alignment()}) {array};"
        for buffer, size in zip(self.body.shared, sizes, strict=True):
            kind = self.body.expressions.scalar_of(buffer.dtype).storage
            place = (
                f"dynamic_shared + {self.dynamic_bytes}"
                if self.dynamic_bytes
                else "dynamic_shared"
            )
            value = f"({kind}*)({place})"
            yield f"{INDENT}{kind}* const {self.names[buffer]} = {value};"
            self.dynamic_bytes += size


def _join(params: list[str]) -> str:
    """Join parameters in one line, or each in its own if they are many."""
    line = ", ".join(params)
    if len(line) <= _LINE:
        return line
    return "\n" + ",\n".join(f"{INDENT * 2}{param}" for param in params)
