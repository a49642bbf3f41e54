"""The launcher in C, compiled once for this Python by the host compiler and kept in the cache.

Without a compiler or Python's headers there is no launcher, and calls are made in Python.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import sysconfig
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from autotune.errors import CompileError
from autotune.kernel.kernel import ITEM_BYTES, Kernel, KernelCall
from autotune.runtime.arrays.array import NDArray, numpy_dtype
from autotune.runtime.arrays.dlpack import CODES
from autotune.runtime.arrays.versions import raise_versions
from autotune.runtime.call.streams import stream_handle
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.target import Target
from autotune.utils.scratch import temporary_folder

_NAME = "autotune_launcher"
_PARTS = (
    "views.c", "entries.c", "entry_type.c", "callers.c", "forward.c", "numbers.c", "launcher.c"
)  # fmt: skip
_TIMEOUT_S = 120.0
_lock = threading.Lock()
_found: list[tuple[object, str]] = []


def launcher() -> Any:
    """Return the C launcher as a module; None where it could not be made."""
    return _launcher()[0]


def why_not() -> str:
    """Return why there is no C launcher; empty if there is one."""
    return _launcher()[1]


def _launcher() -> tuple[object, str]:
    with _lock:
        if not _found:
            _found.append(_make())
        return _found[0]


def _make() -> tuple[object, str]:
    # A module that does not declare that it needs no GIL would enable the GIL for the process.
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None, "this Python runs without a global lock"
    if sys.maxsize < 2**32 or sys.byteorder != "little":
        return None, "addresses are not 64 bits of a little-endian machine"
    try:
        with temporary_folder("launcher") as folder:
            output = compile_kernel(
                source_of_launcher(), Target("c"), timeout_s=_TIMEOUT_S, out_dir=folder
            )
            module = _imported(output.artifact)
    except (CompileError, ImportError, OSError) as error:
        return None, str(error).partition("\n")[0]
    module.set_up(np.ndarray, NDArray, _dtype_rows(), stream_handle, raise_versions)
    return module, ""


def call_by_slot(owner: type, slot: str) -> None:
    """Let instances of a class call the object in a slot directly, without a Python frame.

    The method of the class is called if the slot is empty, or if there is no launcher.
    """
    found = launcher()
    if found is not None and not isinstance(vars(owner)["__call__"], found.Forward):
        setattr(owner, "__call__", found.Forward(owner, slot, vars(owner)["__call__"]))  # noqa: B010


def source_of_launcher() -> Kernel:
    """Return the launcher as something to compile for this Python and this numpy."""
    here = Path(__file__).parent
    made_for = f"/* {sysconfig.get_config_var('SOABI')}, numpy {np.__version__} */\n"
    text = made_for + "".join((here / part).read_text("utf-8") for part in _PARTS)
    includes = (sysconfig.get_paths()["include"], np.get_include())
    return Kernel(
        name=_NAME,
        language="c",
        source=text,
        args=(),
        calls=(KernelCall("autotune_launcher_entry", ()),),
        flags=tuple(f"-I{folder}" for folder in includes),
    )


def _imported(path: str) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(_NAME, path)
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is no extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _dtype_rows() -> tuple[tuple[str, int, int, int], ...]:
    """Return name, DLPack code, bits and numpy's number of each element type."""
    return tuple((name, *dtype_code(name), numpy_dtype(name).num) for name in ITEM_BYTES)


def dtype_code(name: str) -> tuple[int, int]:
    """Return the DLPack code and the bits of an element type."""
    return CODES[name.rstrip("0123456789")], ITEM_BYTES[name] * 8
