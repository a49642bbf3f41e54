"""From a configuration to a kernel: the part of a build that runs in the caller's process."""

from __future__ import annotations

import time
import traceback
from dataclasses import replace
from typing import Any

from autotune.driver import kernel_hash, kernel_of
from autotune.errors import AutotuneError
from autotune.kernel import Kernel, launch_violation
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput


def realise(measure_input: MeasureInput) -> Kernel | BuildResult:
    """Run the template and lower what it returns.

    A configuration that its template, the schedule or the target refuses gives a `BuildResult`
    with `MeasureErrorNo.INSTANTIATION_ERROR` and the reason; nothing is compiled then.
    """
    started = time.perf_counter()
    target, task, config = measure_input
    try:
        refused = _config_errors(config)
        if not refused:
            output = task.instantiate(config)
            kernel = kernel_of(output, target)
            kernel = replace(kernel, kernel_hash=kernel_hash(output, target) or "")
            refused = _config_errors(config) or launch_violation(kernel, target.limits) or ""
            refused = refused or _open_sizes(kernel)
    except AutotuneError as error:
        refused = f"{type(error).__name__}: {error}"
    except Exception:  # the user's template is a border: its failure is this trial's
        return _failed(MeasureErrorNo.COMPILE_HOST, _last_lines(), started)
    if refused:
        return _failed(MeasureErrorNo.INSTANTIATION_ERROR, refused, started)
    return kernel


def _open_sizes(kernel: Kernel) -> str:
    """Say which extents are not known, so that there is nothing to measure."""
    if kernel.sizes is None:
        return ""
    names = ", ".join(kernel.sizes.names)
    return f"{kernel.name}: give {names} values: tuning needs constant shapes"


def _config_errors(config: Any) -> str:
    return "; ".join(map(str, getattr(config, "errors", ())))


def _failed(number: MeasureErrorNo, message: str, started: float) -> BuildResult:
    return BuildResult(
        artifact="",
        kernel=None,
        error_no=number,
        error_msg=message,
        time_cost=time.perf_counter() - started,
    )


def _last_lines() -> str:
    """Return the error first, then where in the template it happened."""
    lines = traceback.format_exc().strip().splitlines()
    return "\n".join([lines[-1], *lines[-9:-1]])
