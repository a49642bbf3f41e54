"""Build a function and hold it: from a schedule or a hand-written kernel to a callable."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from autotune.driver.kernel_of import kernel_of
from autotune.errors import InstantiationError, KernelError, TargetError
from autotune.kernel import launch_violation
from autotune.runtime.compile import CudaCompiler, compile_kernel
from autotune.runtime.module import Module
from autotune.target import Target

_TIMEOUT_S = 600.0


def build(
    what: Any,
    args: Any = None,
    target: Target | str | None = None,
    target_host: Target | str | None = None,
    name: str | None = None,
    *,
    compiler: CudaCompiler = "nvcc",
    timeout_s: float = _TIMEOUT_S,
) -> Module:
    """Build a function for a target.

    No device is needed before it is called.

    Args:
        what: a `SourceKernel`, a schedule, the pair (schedule, tensors) a template returns, or
            what `lower` returns.
        args: the tensors that are the arguments, when ``what`` is a schedule.
        target: what for; by default the target of the enclosing ``with``.
        target_host: accepted for TVM scripts; the host part is Python.
        name: name of the function; by default the kernel's own.
        compiler: of CUDA kernels, ``"nvcc"`` or ``"nvrtc"``.
        timeout_s: seconds the compiler may take.

    Raises:
        TargetError: there is no target.
        KernelError: it is nothing that can be built; the message says what came.
        InstantiationError: a launch breaks a limit of the target; the message names it.
        CompileError: the compiler is missing or refuses the source.
    """
    chosen = Target(target) if target is not None else Target.current()
    if chosen is None:
        raise TargetError("build: no target; pass target= or wrap the call in `with Target(...):`")
    _check(name, timeout_s)
    kernel = kernel_of(what if args is None else (what, args), chosen, name)
    violation = launch_violation(kernel, chosen.limits)
    if violation:
        raise InstantiationError(f"build of {kernel.name!r} for {chosen}: {violation}")
    with tempfile.TemporaryDirectory(prefix="autotune-build-") as folder:
        output = compile_kernel(
            kernel, chosen, timeout_s=timeout_s, compiler=compiler, out_dir=folder
        )
        artifact = Path(output.artifact)
        return Module(kernel, chosen, artifact.read_bytes(), artifact.suffix, output.resources)


def _check(name: object, timeout_s: object) -> None:
    if name is not None and not isinstance(name, str):
        raise KernelError(f"build: name must be a text, got {name!r}")
    if not isinstance(timeout_s, int | float) or not timeout_s > 0:
        raise KernelError(f"build: timeout_s must be positive seconds, got {timeout_s!r}")
