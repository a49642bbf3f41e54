"""nvcc as PyCUDA calls it: the only import of PyCUDA's compiler.

It is not in `autotune.runtime.nvidia.driver`, because importing PyCUDA loads the driver, for which
processes that use another compiler need not wait.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.errors import CompilerMissing
from autotune.utils.command import Completed, run

try:
    from pycuda import compiler as _compiler
    from pycuda import driver as _driver
    from pytools import prefork as _prefork
except ImportError:  # no PyCUDA, or no driver
    _compiler: object = None  # type: ignore[no-redef]

_lock = threading.Lock()


def has_pycuda_compiler() -> bool:
    """Return whether PyCUDA can be used, which also takes a driver."""
    return _compiler is not None


def nvcc_through_pycuda(
    source: str, nvcc: str, options: list[str], folder: Path, timeout_s: float
) -> tuple[list[str], Completed, bytes]:
    """Compile to a cubin by ``pycuda.compiler``; return its command, its end, and the cubin.

    PyCUDA neither limits nvcc's time nor clears up after a failure. Both are arranged here: its
    commands are run by us, in the way pytools provides for that, and its temporary files are
    made in ``folder``.
    """
    forker = _Forker(timeout_s, folder)
    cubin = b""
    with _lock, warnings.catch_warnings():
        # "The compiler succeeded, but said the following": we ask it to say something.
        warnings.simplefilter("ignore")
        before, _prefork.forker = _prefork.forker, forker
        mkdtemp = tempfile.mkdtemp
        tempfile.mkdtemp = _mkdtemp_in(folder)  # type: ignore[assignment]
        try:
            cubin = _compiler.compile_plain(source, options, False, nvcc, False, target="cubin")
        except _driver.CompileError:
            pass
        finally:
            _prefork.forker = before
            tempfile.mkdtemp = mkdtemp
    if forker.completed is None:
        raise CompilerMissing(f"pycuda.compiler did not run {nvcc}; it should be 2024.1 or later")
    return forker.argv, forker.completed, cubin


class _Forker:
    """Runs PyCUDA's nvcc so that it can be killed, and keeps how it ended."""

    def __init__(self, timeout_s: float, folder: Path) -> None:
        self.timeout_s = timeout_s
        self.folder = folder
        self.argv: list[str] = []
        self.completed: Completed | None = None

    def call_capture_output(
        self, cmdline: list[str], cwd: str | None = None, error_on_nonzero: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run a command; PyCUDA calls this through pytools."""
        self.argv = list(cmdline)
        variables = {"TMPDIR": str(self.folder)}
        self.completed = run(cmdline, self.timeout_s, cwd, variables=variables)
        return self.completed.returncode, self.completed.output.encode(), b""


def _mkdtemp_in(folder: Path) -> Callable[..., str]:
    """Return a ``mkdtemp`` that makes folders in ``folder``, for this thread and no other."""
    mine, mkdtemp = threading.get_ident(), tempfile.mkdtemp

    def redirected(suffix: Any = None, prefix: Any = None, dir: Any = None) -> str:
        inside = str(folder) if threading.get_ident() == mine else None
        return str(mkdtemp(suffix, prefix, dir or inside))

    return redirected
