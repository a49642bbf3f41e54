"""Gathers the kernels to export: the best of each workload of a log, for each device class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from autotune.codegen.packed import is_cxx
from autotune.codegen.registered_calls import registered_names
from autotune.driver import kernel_of
from autotune.errors import AutotuneError, CompileError, KernelError
from autotune.kernel import Argument, Kernel, launch_violation
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record import best_of_each
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.compile.cubin import symbols
from autotune.runtime.compile.nvrtc_flags import flag_arch
from autotune.runtime.compile.ptx import ptx_of
from autotune.ship.identifiers import unique_names
from autotune.target import Target
from autotune.task import Task
from autotune.utils.environment import processors
from autotune.utils.pools import abandonable_pool
from autotune.utils.scratch import temporary_folder

Kind = Literal["cubin", "ptx", "text"]
# Seconds that a compiler may take for one kernel.
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Image:
    """A kernel as it is shipped: machine code, PTX, or C text.

    Attributes:
        kind: which of these; "text" is C text.
        arch: ``"sm_90"``; of C text, the name of the CPU.
        kernel: how it is launched.
        content: the bytes.
        symbols: the name of each entry in it.
    """

    kind: Kind
    arch: str
    kernel: Kernel
    content: bytes
    symbols: Mapping[str, str]


@dataclass(frozen=True)
class Shipped:
    """One workload: the record that it is from, and its kernel for each device class."""

    measure_input: MeasureInput
    result: MeasureResult
    name: str
    images: tuple[Image, ...]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Its arguments, in order."""
        return self.images[0].kernel.args

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of its arguments; that of a number is empty."""
        return tuple(a.shape for a in self.arguments)


@dataclass(frozen=True)
class ShippedFunction:
    """The workloads of one task that take the same kinds of arguments."""

    task: str
    name: str
    workloads: tuple[Shipped, ...]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Its arguments; shapes are those of its first workload."""
        return self.workloads[0].arguments


@dataclass(frozen=True)
class Shipment:
    """All that is exported.

    Attributes:
        name: of the library.
        on_gpu: whether its kernels run on CUDA devices.
        functions: what can be called.
        left_out: what could not be exported, and why.
    """

    name: str
    on_gpu: bool
    functions: tuple[ShippedFunction, ...]
    left_out: tuple[str, ...]


def gather(records: Iterable[Pair], name: str, archs: Sequence[str] = ()) -> Shipment:
    """Compile the best record of each workload.

    Args:
        records: of templates that are imported, all for the CPU or all for CUDA. Records of one
            workload on several architectures are each used for their own.
        name: of the library; a name that C takes.
        archs: architectures to compile CUDA kernels for besides those of the records.

    Raises:
        KernelError: there is nothing to export, or records are for the CPU and for CUDA.
    """
    best = [pair for pair in best_of_each(records) if isinstance(pair[0].task, Task)]
    if not best:
        raise KernelError("export: there is no record of a template that worked")
    kinds = {pair[0].target.backend.on_gpu for pair in best}
    if len(kinds) > 1:
        raise KernelError(
            "export: the records are for the CPU and for CUDA, expected those of one of them; "
            "choose some by --task"
        )
    on_gpu = kinds.pop()
    by_workload: dict[str, list[Pair]] = {}
    for pair in best:
        by_workload.setdefault(str(Task.of(pair[0].task).workload), []).append(pair)
    groups = [pairs for _, pairs in sorted(by_workload.items())]
    # Compilers are processes of their own: as many threads wait for them as there are cores.
    with abandonable_pool(processors(), "autotune-ship") as pool:
        whole = list(pool.map(lambda each: _whole(each, archs, on_gpu), groups))
    left_out = [line for _, lines in whole for line in lines]
    made = [
        Shipped(*min(pairs, key=lambda pair: pair[1].seconds), "", images)
        for pairs, (images, _) in zip(groups, whole, strict=True)
        if images
    ]
    if not made:
        raise KernelError("export: nothing could be exported: " + "; ".join(left_out))
    return Shipment(name, on_gpu, tuple(_functions(name, made)), tuple(left_out))


def _whole(
    pairs: Sequence[Pair], archs: Sequence[str], on_gpu: bool
) -> tuple[tuple[Image, ...], list[str]]:
    """Return a workload's kernels, and what was left out."""
    left_out: list[str] = []
    return tuple(_images(pairs, archs, on_gpu, left_out)), left_out


def _images(
    pairs: Sequence[Pair],
    archs: Sequence[str],
    on_gpu: bool,
    left_out: list[str],
) -> Iterator[Image]:
    """Yield a workload's kernels: for the architectures of its records, then for others."""
    if not on_gpu:
        pair = min(pairs, key=lambda each: each[1].seconds)
        yield from _attempt(pair, [_c_image], left_out)
        return
    own = {pair[0].target.arch: pair for pair in pairs}
    # A record that names no architecture is of the device that was there then.
    named = {pair[0].target.arch for pair in pairs if "arch" in pair[0].target.attrs}
    wanted = sorted({*named, *archs} or own, key=_number)
    # A kernel that was tuned for one architecture is the best guess for those near it.
    for arch in wanted:
        nearest = min(own, key=lambda one: (abs(_number(one) - _number(arch)), one))
        makers = [_cubin_image, _ptx_image] if arch == wanted[-1] else [_cubin_image]
        yield from _attempt(own[nearest], makers, left_out, arch)


def _attempt(
    pair: Pair,
    makers: Sequence[Maker],
    left_out: list[str],
    arch: str = "",
) -> Iterator[Image]:
    """Yield what can be made of a record for an architecture; note what cannot, and why."""
    inp = pair[0]
    task = Task.of(inp.task)
    what = f"{task.name}{task.args}" + (f" for {arch}" if arch else "")
    try:
        kernel = kernel_of(task.realise(inp.config).what, inp.target)
        if kernel.sizes is not None:
            raise KernelError("its sizes are open")
        for make in makers:
            image = make(kernel, arch or inp.target.arch)
            if image is not None:
                yield image
    except AutotuneError as error:
        left_out.append(f"{what}: {str(error).strip().partition(chr(10))[0]}")


def _c_image(kernel: Kernel, arch: str) -> Image:
    """Return C text that compiles here; its functions get names of their own later."""
    if is_cxx(kernel):
        raise KernelError("it is in C++, and a project is of C: give it the prototypes of C")
    called = registered_names(kernel)
    if called:
        raise KernelError(f"it calls {', '.join(map(repr, called))}, functions of Python")
    with temporary_folder("ship") as folder:
        output = compile_kernel(kernel, Target("c"), timeout_s=_TIMEOUT_S, out_dir=folder)
        built = Path(output.artifact).read_bytes()
    return Image("text", arch, kernel, built, {one.entry: one.entry for one in kernel.calls})


def _cubin_image(kernel: Kernel, arch: str) -> Image:
    only = flag_arch(kernel.flags)
    if only is not None and _number(only) != _number(arch):
        raise KernelError(f"it is written for {only} only")
    target = Target(f"cuda -arch={arch}")
    if violation := launch_violation(kernel, target.limits):
        raise KernelError(violation)
    with temporary_folder("ship") as folder:
        output = compile_kernel(kernel, target, timeout_s=_TIMEOUT_S, out_dir=folder)
        cubin = Path(output.artifact).read_bytes()
    return Image("cubin", only or arch, kernel, cubin, symbols(kernel, cubin))


def _ptx_image(kernel: Kernel, arch: str) -> Image | None:
    """Return PTX, from which drivers make code for later devices; None of one kind's own code."""
    if flag_arch(kernel.flags) is not None:
        return None
    cubin = _cubin_image(kernel, arch)
    return replace(cubin, kind="ptx", content=ptx_of(kernel, arch, _TIMEOUT_S))


def _number(arch: str) -> int:
    """Return 90 of ``sm_90`` and of ``sm_90a``."""
    digits = "".join(c for c in arch if c.isdigit())
    if not digits:
        raise CompileError(f"expected an architecture such as sm_90, got {arch!r}")
    return int(digits)


Maker = Callable[[Kernel, str], Image | None]


def _functions(library: str, made: Sequence[Shipped]) -> Iterator[ShippedFunction]:
    """Group workloads by what they take, and give everything its name."""
    groups: dict[tuple[object, ...], list[Shipped]] = {}
    for one in made:
        taken = tuple((type(a), a.name, a.dtype, a.role, len(a.shape)) for a in one.arguments)
        groups.setdefault((Task.of(one.measure_input.task).name, taken), []).append(one)
    tasks = [str(key[0]) for key in groups]
    firsts = [group[0].arguments for group in groups.values()]
    wanted = [
        (task, *([_told_apart(taken)] if tasks.count(task) > 1 else []))
        for task, taken in zip(tasks, firsts, strict=True)
    ]
    names = unique_names(library, wanted, [repr(key) for key in groups])
    for task, name, group in zip(tasks, names, groups.values(), strict=True):
        args = [(name, *Task.of(one.measure_input.task).args) for one in group]
        each = unique_names("", args, list(map(repr, args)), taken=names)
        workloads = tuple(replace(one, name=n) for one, n in zip(group, each, strict=True))
        yield ShippedFunction(task, name, workloads)


def _told_apart(arguments: Sequence[Argument]) -> str:
    """Return what names a function beside others of its task: its arguments and their dtypes."""
    dtypes = list(dict.fromkeys(a.dtype for a in arguments))
    return "_".join([*(a.name for a in arguments), *dtypes])
