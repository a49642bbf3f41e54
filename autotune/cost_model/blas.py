"""Runs numpy's BLAS on one thread, for small systems of equations.

OpenBLAS wakes a thread for each core for a product of two 80x80 matrices and lets it spin for
milliseconds afterwards. That costs ten times the CPU time of the arithmetic, and disturbs
compilers, and kernels timed on the same host.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

# Where Linux lists the libraries that a process has loaded.
_MAPS = Path("/proc/self/maps")
# Names differ by who built the library: numpy's wheels, scipy's wheels, distributions.
_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "", "_64_", "64")

# Modules that bundle an OpenBLAS of their own.
_OWNERS = ("numpy", "scipy.linalg")

Knob = tuple[Callable[[], int], Callable[[int], None]]


@contextmanager
def one_thread(*modules: str) -> Iterator[None]:
    """Use one thread inside; does nothing where OpenBLAS is not found.

    Args:
        modules: imported before, as what is loaded inside keeps its own threads: ``scipy.linalg``
            has another OpenBLAS than numpy.
    """
    for module in modules:
        importlib.import_module(module)
    knobs = _knobs(tuple(owner for owner in _OWNERS if owner in sys.modules))
    before = [get() for get, _ in knobs]
    try:
        for _, put in knobs:
            put(1)
        yield
    finally:
        for (_, put), threads in zip(knobs, before, strict=True):
            put(threads)


@lru_cache(maxsize=len(_OWNERS))
def _knobs(owners: tuple[str, ...]) -> list[Knob]:
    """Return how to read and set the number of threads of each OpenBLAS in this process.

    Args:
        owners: which of `_OWNERS` are loaded; more libraries are there once more of them are.
    """
    if not _MAPS.exists():
        return []
    lines = _MAPS.read_text("utf-8", errors="replace").splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines if "openblas" in line}
    return [knob for path in sorted(paths) if (knob := _knob(path)) is not None]


def _knob(path: str) -> Knob | None:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
            put = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if get is not None and put is not None:
                return get, put
    return None
