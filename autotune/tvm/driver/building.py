"""TVM's `build`, which calls what a script registered to see or change the text of kernels."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from autotune import driver
from autotune.lowering import LoweredFunction
from autotune.runtime.module import Module
from autotune.target import Target
from autotune.tvm.register import POSTPROC, get_global_func

__all__ = ["build"]


@functools.wraps(driver.build)
def build(
    inputs: object,
    args: object = None,
    target: Target | str | None = None,
    target_host: Target | str | None = None,
    name: str | None = None,
    **options: Any,
) -> Module:
    """Build a function as `autotune.build` does, by the postprocessor if one is registered."""
    if isinstance(inputs, LoweredFunction) and isinstance(args, str | Target) and target is None:
        args, target = None, args  # what is lowered needs no arguments
    return driver.build(
        inputs,
        args,
        target,
        target_host,
        name,
        **{"postprocess": _postprocessor(target), **options},
    )


def _postprocessor(target: object) -> Callable[[str], object] | None:
    """Return the function registered for the text of CUDA kernels, as a function of it alone."""
    found = get_global_func(POSTPROC, allow_missing=True)
    if found is None or len(inspect.signature(found).parameters) < 2:
        return found
    return lambda code: found(code, target or Target.current())  # as of TVM 0.12
