"""The result of lowering: functions of one or more kernels, ready for code generation."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from autotune.errors import LoweringError
from autotune.ir.dtype import bits_of, element_of
from autotune.ir.expr import Expr, Var
from autotune.ir.printer import Printer
from autotune.ir.stmt import Buffer, Stmt
from autotune.target.backends import of_language
from autotune.utils.math import round_up

Extents = tuple[int, int, int]
# Blocks may be as many as sizes say.
Blocks = tuple[int | Expr, int | Expr, int | Expr]


def buffer_bytes(buffer: Buffer) -> int:
    """Return the size of a buffer in bytes; 0 if it is known only when the function is called."""
    if not buffer.shape:
        return max(bits_of(element_of(buffer.dtype)) // 8, 1)
    extent, stride = buffer.shape[0], buffer.strides[0]
    size = extent * stride if isinstance(extent, int) and isinstance(stride, int) else 0
    return size * max(bits_of(element_of(buffer.dtype)) // 8, 1)


@dataclass(frozen=True)
class LoweredKernel:
    """One kernel, or for a CPU the whole function.

    Attributes:
        name: of the entry.
        params: the global buffers and the numbers it takes, in order.
        grid, block: the launch, in x, y, z; all ones on a CPU.
        body: flat loads and stores; thread axes are the free variables ``threadIdx.x`` and so on.
        shared: the shared buffers that the body allocates.
        local: the private buffers that the body allocates.
        vthreads: copies of the innermost statements that virtual threads made, at most.
        min_blocks: blocks that a multiprocessor is to hold at once; 0 if nothing is said.
        stage: name of the stage that it computes; empty for a CPU.
        unfinished: why it cannot be launched on a GPU yet; such a kernel can be printed only.
    """

    name: str
    params: tuple[Buffer | Var, ...]
    grid: Blocks
    block: Extents
    body: Stmt
    shared: tuple[Buffer, ...] = ()
    local: tuple[Buffer, ...] = ()
    vthreads: int = 1
    min_blocks: int = 0
    stage: str = ""
    unfinished: str = ""

    @property
    def shared_bytes(self) -> int:
        """Shared memory of one block, each buffer aligned to 16 bytes."""
        return sum(round_up(buffer_bytes(buffer), 16) for buffer in self.shared)

    @property
    def local_bytes(self) -> int:
        """Private memory of one thread, registers where it fits."""
        return sum(map(buffer_bytes, self.local))

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return prod(self.block)


@dataclass(frozen=True)
class LoweredFunction:
    """A function that a caller gives its arguments; ``str`` shows its loops.

    Attributes:
        name: what the user calls it.
        args: the arguments, in the caller's order: arrays, and numbers.
        roles: ``"in"``, ``"out"`` or ``"inout"`` for each argument.
        workspaces: global buffers between the kernels.
        kernels: in the order they run.
        target_kind: ``"cuda"`` or ``"c"``.
        sizes: numbers that follow from the shapes of the arrays that a caller passes.
        imports: texts in the target's language that stand in front of the kernels.
    """

    name: str
    args: tuple[Buffer | Var, ...]
    roles: tuple[str, ...]
    workspaces: tuple[Buffer, ...]
    kernels: tuple[LoweredKernel, ...]
    target_kind: str
    sizes: tuple[Var, ...] = ()
    imports: tuple[str, ...] = ()

    @property
    def on_gpu(self) -> bool:
        """Whether its kernels are launched over a grid of threads."""
        return of_language(self.target_kind).on_gpu

    def check_finished(self) -> None:
        """Raise if a kernel can be printed only.

        Raises:
            LoweringError: the message says which stage it is of, and what to do.
        """
        for kernel in self.kernels:
            if kernel.unfinished:
                raise LoweringError(kernel.unfinished)

    def __getitem__(self, name: str) -> LoweredFunction:
        """Return the function called ``name``, as TVM's modules do.

        Raises:
            LoweringError: it has another name.
        """
        if name != self.name:
            raise LoweringError(f"lowering made one function, {self.name!r}, not {name!r}")
        return self

    def script(self, **options: object) -> str:
        """Return ``str`` of the function, as TVM's modules do; options are ignored."""
        return str(self)

    astext = script

    def show(self, **options: object) -> None:
        """Print what ``str`` shows."""
        print(self)

    def __str__(self) -> str:
        printer = Printer()
        args = ", ".join(
            f"{printer.name_of(one)}: {role} {_typed(one)}"
            if isinstance(one, Buffer)
            else f"{printer.name_of(one)}: {one.dtype}"
            for one, role in zip(self.args, self.roles, strict=True)
        )
        lines = [f"fn {self.name}({args}):"]
        for buffer in self.workspaces:
            lines.append(f"  workspace {printer.name_of(buffer)}: {_typed(buffer)}")
        for kernel in self.kernels:
            indent = "  "
            if kernel.unfinished:
                lines.append(f"  loops of {kernel.stage}, no kernel yet:")
                indent = "    "
            elif self.on_gpu:
                grid = ", ".join(map(printer.expr, kernel.grid))
                bounds = f" min_blocks={kernel.min_blocks}" if kernel.min_blocks else ""
                lines.append(f"  launch {kernel.name} grid=({grid}) block={kernel.block}{bounds}:")
                indent = "    "
            lines += printer.stmt(kernel.body, indent)
        return "\n".join(lines)


def _typed(buffer: Buffer) -> str:
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"
