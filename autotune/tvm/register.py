"""TVM's ``register_func``, for the one callback that changes nothing here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from autotune.errors import AutotuneError
from autotune.utils.check import Check

logger = logging.getLogger("autotvm")

_COMPILE = "tvm_callback_cuda_compile"
_CHECK = Check(AutotuneError, "register_func")
Function = Callable[..., Any]


def register_func(
    func_name: str | Function, f: Function | None = None, override: bool = False
) -> Any:
    """Take a function that compiles CUDA, which is not called: nvcc compiles every kernel.

    Args:
        func_name: ``"tvm_callback_cuda_compile"``, or the function of that name, if bare.
        f: the function; None to decorate one.
        override: accepted for TVM scripts.

    Raises:
        AutotuneError: the name is another one.
    """
    if callable(func_name):
        return register_func(getattr(func_name, "__name__", ""), func_name, override)
    name = _CHECK.text("func_name", func_name, _COMPILE)
    if name != _COMPILE:
        raise AutotuneError(
            f"register_func: nothing here calls {name!r}: there is no registry of functions; "
            "import what you need, and write a kernel of your own as an autotune.SourceKernel"
        )

    def decorate(function: Function) -> Function:
        logger.info("%s is not called: nvcc compiles every kernel", name)
        return function

    return decorate if f is None else decorate(f)
