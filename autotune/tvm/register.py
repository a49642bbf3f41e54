"""TVM's registry of functions, which a script looks up, and kernels on a CPU call by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from autotune.errors import AutotuneError
from autotune.runtime.host import registered
from autotune.utils.check import Check
from autotune.utils.names import did_you_mean

logger = logging.getLogger("autotvm")

_COMPILE = "tvm_callback_cuda_compile"
POSTPROC = "tvm_callback_cuda_postproc"
_CHECK = Check(AutotuneError, "register_func")
Function = Callable[..., Any]


def register_func(
    func_name: str | Function, f: Function | None = None, override: bool = False
) -> Any:
    """Keep a function under a name, for `get_global_func` and `tir.call_packed`.

    ``tvm_callback_cuda_postproc`` gets the text of each CUDA kernel that `build` builds, and
    returns what is compiled; trials and networks do not call it. One that compiles CUDA is taken
    so that scripts go on, but nvcc compiles every kernel.

    Args:
        func_name: the name, or the function itself, whose name it is then.
        f: the function; None to decorate one.
        override: whether a function of that name is replaced.

    Raises:
        AutotuneError: the name is taken.
    """
    if callable(func_name):
        return register_func(getattr(func_name, "__name__", ""), func_name, override)
    name = _CHECK.text("func_name", func_name, _COMPILE)
    if name in registered.registered() and not override:
        raise AutotuneError(
            f"register_func: {name!r} is registered already; pass override=True to replace it"
        )

    def decorate(function: Function) -> Function:
        if name == _COMPILE:
            logger.info("%s is not called: nvcc compiles every kernel", name)
        registered.register(name, function)
        return function

    return decorate if f is None else decorate(f)


def get_global_func(name: str, allow_missing: bool = False) -> Function | None:
    """Return the function that was registered under a name.

    Args:
        name: the name.
        allow_missing: whether to return None where there is none, as scripts do to ask whether TVM
            was built with a library.

    Raises:
        AutotuneError: there is no function of that name.
    """
    found = registered.find(name)
    if found is None and not allow_missing:
        raise AutotuneError(
            f"get_global_func: Cannot find global function {name!r}: only what this script "
            "registered is there, and products and random numbers of tvm.contrib: other functions "
            "of TVM are plain ones here, to be imported"
            + did_you_mean(name, registered.registered())
        )
    return found
