"""Building: from a schedule or a hand-written kernel to a callable module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

from autotune.driver.as_built import as_built
from autotune.driver.kernel_of import kernel_of
from autotune.errors import InstantiationError, KernelError, TargetError
from autotune.kernel import Kernel, SourceKernel, target_violation
from autotune.lowering import LoweredFunction
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.module import Module
from autotune.target import Target
from autotune.target.backends import Compiler, of_language, of_threads, part
from autotune.te import Schedule
from autotune.te.out_of_bounds_reads import warn_of_out_of_bounds_reads
from autotune.utils import environment
from autotune.utils.check import Check
from autotune.utils.scratch import temporary_folder

_TIMEOUT_S = 600.0


def build(
    what: object,
    args: object = None,
    target: Target | str | None = None,
    target_host: Target | str | None = None,
    name: str | None = None,
    *,
    compiler: Compiler = "nvcc",
    timeout_s: float = _TIMEOUT_S,
    postprocess: Callable[[str], object] | None = None,
) -> Module:
    """Build a function for a target.

    No device is needed before it is called.

    Args:
        what: a `SourceKernel`, a schedule, the pair (schedule, tensors) that a template returns,
            or the result of `lower`.
        args: the tensors that are the arguments, if ``what`` is a schedule; not needed for a
            result of `lower`. A target in their place is the target.
        target: the target; by default that of the enclosing ``with``, or else ``"llvm"`` for
            tensor expressions (``"cuda"`` if `lower` has found threads).
        target_host: accepted for TVM scripts; the host part is Python.
        name: name of the function; by default that of the kernel.
        compiler: of CUDA kernels, ``"nvcc"`` or ``"nvrtc"``.
        timeout_s: seconds that the compiler may take.
        postprocess: gets the text of CUDA kernels, and returns what is to be compiled.

    Raises:
        TargetError: there is no target for a hand-written kernel.
        KernelError: ``what`` cannot be built; the message says what was passed.
        InstantiationError: a launch exceeds a limit of the target; the message names it.
        CompileError: the compiler is missing or refuses the source.
        FrozenError: in frozen mode, the machine code differs from that of the lock.
    """
    if target is None and isinstance(args, Target | str):
        args, target = None, args
    chosen = _target(what, target)
    _check(name, compiler, timeout_s)
    if isinstance(what, LoweredFunction) and args is not None:
        _check_arguments(what, args)
        args = None
    if isinstance(what, Schedule):
        warn_of_out_of_bounds_reads(what)
    kernel = kernel_of(what if args is None else (what, args), chosen, name)
    violation = target_violation(kernel, chosen)
    if violation:
        raise InstantiationError(f"build of {kernel.name!r} for {chosen}: {violation}")
    compiled = _postprocessed(as_built(kernel, chosen), postprocess)
    with temporary_folder("build") as folder:
        output = compile_kernel(
            compiled, chosen, timeout_s=timeout_s, compiler=compiler, out_dir=folder
        )
        artifact = Path(output.artifact)
        built = artifact.read_bytes()
        if environment.frozen():
            part("autotune.lock:check_built")(kernel, chosen, built)
        return Module(compiled, chosen, built, artifact.suffix, output.resources)


def _postprocessed(kernel: Kernel, change: Callable[[str], object] | None) -> Kernel:
    """Return a kernel with the text that a function of the caller makes of its own."""
    if change is None or not of_language(kernel.language).on_gpu:
        return kernel
    Check(KernelError, "build").function("postprocess", change)
    source = change(kernel.source)
    if not isinstance(source, str):
        raise KernelError(
            f"build of {kernel.name!r}: {getattr(change, '__name__', 'postprocess')} is given the "
            f"text of the kernel and returns the text to compile, got {type(source).__name__}"
        )
    return replace(kernel, source=source)


def _target(what: object, given: Target | str | None) -> Target:
    """Return the target: the given one, that of the context, or TVM's default."""
    found = Target(given) if given is not None else Target.current()
    if found is not None:
        return found
    if isinstance(what, SourceKernel | Kernel):
        raise TargetError("build: no target; pass target= or wrap the call in `with Target(...):`")
    threads = isinstance(what, LoweredFunction) and what.on_gpu
    return Target(of_threads(threads).kinds[0])


def _check_arguments(function: LoweredFunction, args: object) -> None:
    """Raise if a lowered function was made with other arguments than are given with it now."""
    expected = "the tensors that the function was lowered with"
    listed = Check(KernelError, "build").sequence("args", args, expected)
    given = [_outline(each) for each in listed]
    own = [_outline(each) for each in function.args]
    if given != own:
        raise KernelError(
            f"build: {function.name!r} was lowered with the arguments "
            f"{', '.join(map(repr, function.args))}; expected these or none, got {args!r}"
        )


def _outline(argument: object) -> tuple[str, str]:
    """Return what tells arguments of a lowered function apart."""
    return str(tuple(getattr(argument, "shape", ()))), str(getattr(argument, "dtype", ""))


def _check(name: object, compiler: object, timeout_s: object) -> None:
    check = Check(KernelError, "build")
    if name is not None:
        check.text("name", name, "gemm")
    check.one_of("compiler", compiler, get_args(Compiler))
    check.number("timeout_s", timeout_s, least=0.001)
