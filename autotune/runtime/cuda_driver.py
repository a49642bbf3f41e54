"""The door to PyCUDA: the driver's contexts, memory, modules and events, and nvcc through it.

PyCUDA is an extra, and cannot be imported where there is no driver; this module can, and then
says what is missing to whoever asks for a device. Work is done in the primary context of the
device, the one that torch, cupy and jax use, so that arrays are shared without copying. A context
is made current for each piece of work and put back after it, so any thread may come.

Every failure of the driver leaves here as a `DeviceError` with the driver's own words.
"""

from __future__ import annotations

import contextlib
import ctypes
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from autotune.errors import CompilerMissing, DeviceError
from autotune.runtime.device import Device
from autotune.runtime.memory import Block, register_memory
from autotune.target.query import cuda_device_count
from autotune.utils.command import Completed, run

_missing = ""
try:
    from pycuda import compiler as _compiler
    from pycuda import driver as driver
    from pytools import prefork as _prefork
except ImportError as error:
    driver: Any = None  # type: ignore[no-redef]
    _missing = str(error)

_compile_lock = threading.Lock()
_context_lock = threading.Lock()


def has_pycuda() -> bool:
    """Return whether PyCUDA can be used, which also takes a driver."""
    return driver is not None


# ---- contexts ----------------------------------------------------------------------------------


@contextlib.contextmanager
def activated(index: int) -> Iterator[None]:
    """Make the primary context of device ``index`` current, and turn driver errors into ours.

    Raises:
        DeviceError: there is no such device or no PyCUDA, or the driver failed inside the block.
    """
    context = _context(index)
    try:
        context.push()
    except driver.Error as error:
        raise DeviceError(f"cuda:{index}: {error}") from error
    try:
        yield
    except driver.Error as error:
        raise DeviceError(f"cuda:{index}: {error}") from error
    finally:
        driver.Context.pop()


def _context(index: int) -> Any:
    with _context_lock:
        return _retained(index)


@cache
def _retained(index: int) -> Any:
    if index >= cuda_device_count():
        raise DeviceError(
            f"cuda:{index}: there is no such device; {cuda_device_count()} are visible"
        )
    if driver is None:
        raise DeviceError(
            f"cuda:{index}: PyCUDA cannot be used ({_missing}); install it with "
            "`pip install 'autotune[cuda]'`"
        )
    try:
        driver.init()
        return driver.Device(index).retain_primary_context()
    except driver.Error as error:
        raise DeviceError(f"cuda:{index}: no context could be made: {error}") from error


def driver_version() -> str:
    """Return the version of CUDA that the driver speaks, such as ``"13000"``."""
    _context(0)
    return str(driver.get_driver_version())


# ---- memory ------------------------------------------------------------------------------------


class _Allocation:
    """Owns device memory; its end frees it, in whatever thread that comes."""

    __slots__ = ("__weakref__", "raw")

    def __init__(self, raw: Any, index: int) -> None:
        self.raw = raw
        weakref.finalize(self, _free, raw, index)


def _free(raw: Any, index: int) -> None:
    # After a fault the context takes nothing any more, not even memory back.
    with contextlib.suppress(DeviceError), activated(index):
        raw.free()


class CudaMemory:
    """The memory of CUDA devices."""

    def allocate(self, device: Device, size: int) -> Block:
        """Return uninitialised bytes; the driver aligns them to at least 256."""
        with activated(device.index):
            raw = driver.mem_alloc(max(1, size))
        return Block(int(raw), size, _Allocation(raw, device.index))

    def to_host(self, device: Device, host: int, pointer: int, size: int) -> None:
        """Copy to the host, after all queued work."""
        with activated(device.index):
            driver.memcpy_dtoh(host_view(host, size), pointer)

    def from_host(self, device: Device, pointer: int, host: int, size: int) -> None:
        """Copy from the host."""
        with activated(device.index):
            driver.memcpy_htod(pointer, host_view(host, size))

    def copy(self, device: Device, target: int, source: int, size: int) -> None:
        """Copy within a device."""
        with activated(device.index):
            driver.memcpy_dtod(target, source, size)
            driver.Context.synchronize()

    def fill(self, device: Device, pointer: int, byte: int, size: int) -> None:
        """Set every byte."""
        with activated(device.index):
            driver.memset_d8(pointer, byte, size)
            driver.Context.synchronize()


def host_view(address: int, size: int) -> memoryview:
    """Return host memory as something PyCUDA can copy from and to."""
    return memoryview((ctypes.c_ubyte * size).from_address(address))


if driver is not None:
    register_memory("cuda", CudaMemory())


# ---- nvcc --------------------------------------------------------------------------------------


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


def nvcc_through_pycuda(
    source: str, nvcc: str, options: list[str], folder: Path, timeout_s: float
) -> tuple[list[str], Completed, bytes]:
    """Compile to a cubin by ``pycuda.compiler``; return its command, its end, and the cubin.

    PyCUDA neither limits nvcc's time nor clears up after a failure. Both are arranged here: its
    commands are run by us, in the way pytools provides for that, and its temporary files are
    made in ``folder``.
    """
    if driver is None:
        raise CompilerMissing(f"PyCUDA cannot be used: {_missing}")
    forker = _Forker(timeout_s, folder)
    cubin = b""
    with _compile_lock, warnings.catch_warnings():
        # "The compiler succeeded, but said the following": we ask it to say something.
        warnings.simplefilter("ignore")
        before, _prefork.forker = _prefork.forker, forker
        mkdtemp = tempfile.mkdtemp
        tempfile.mkdtemp = _mkdtemp_in(folder)  # type: ignore[assignment]
        try:
            cubin = _compiler.compile_plain(source, options, False, nvcc, False, target="cubin")
        except driver.CompileError:
            pass
        finally:
            _prefork.forker = before
            tempfile.mkdtemp = mkdtemp
    if forker.completed is None:
        raise CompilerMissing(f"pycuda.compiler did not run {nvcc}; it should be 2024.1 or later")
    return forker.argv, forker.completed, cubin
