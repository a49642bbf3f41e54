"""The one place that reads environment variables.

Variables tell where things are on this machine, not how autotune behaves; behaviour is set by
arguments. ``AUTOTUNE_FROZEN`` is the one exception, as it is set for programs without changing
them. Everything here is a function, so that tests can change the environment.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

# Variables that change what a compiler produces without standing in its command line.
_COMPILER_VARIABLES = (
    "COMPILER_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX",
    "LIBRARY_PATH", "MACOSX_DEPLOYMENT_TARGET", "NVCC_APPEND_FLAGS", "NVCC_CCBIN",
    "NVCC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS", "NV_NVVM_VERSION", "SDKROOT",
)  # fmt: skip
# Those of them that hold flags, and those that hold folders of headers.
_FLAG_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVRTC_APPEND_FLAGS")
_INCLUDE_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
# The variable that names the folder of caches, and where it is without: per platform.
_CACHE_PLACES = {
    "darwin": ("", "Library/Caches"),
    "win32": ("LOCALAPPDATA", "AppData/Local"),
}


def cache_dir() -> Path:
    """Return where compiled kernels and device facts are kept between runs.

    ``AUTOTUNE_CACHE_DIR`` if set, else the platform's own place for caches, else - for a user
    without a home, as containers have them - a folder among the temporary files. Code from there
    is loaded, so a folder that others may write to is refused, see `refused_cache`, and one among
    the temporary files takes its place.
    """
    chosen = _chosen_cache()
    if chosen is None or refused_cache():
        return _temporary_cache()
    return chosen


def refused_cache() -> str:
    """Return why the folder that was chosen for the cache is not used; empty where it is."""
    chosen = _chosen_cache()
    if chosen is None:
        return ""
    try:
        status = chosen.stat()
    except FileNotFoundError:
        return ""  # it is made, or the cache does without
    except OSError as error:
        return _not_used(chosen, f"it cannot be looked into ({error.strerror})")
    if private(status):
        return ""
    why = f"it belongs to user {status.st_uid}, not to you"
    if status.st_uid == os.getuid():
        why = f"others may write to it (mode {stat.S_IMODE(status.st_mode):o}): chmod -R go-w it"
    return _not_used(chosen, why)


def _not_used(cache: Path, why: str) -> str:
    return f"the cache in {cache} is not used, because {why}; or set AUTOTUNE_CACHE_DIR"


def private(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to this user, and no other may write to it."""
    if not hasattr(os, "getuid"):
        return True  # permissions are not kept in modes there
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def powercap_dir() -> Path:
    """Return where Linux shows the counters of energy: ``AUTOTUNE_POWERCAP`` if set.

    Containers may see the host's at another place than their own.
    """
    return Path(os.environ.get("AUTOTUNE_POWERCAP") or "/sys/class/powercap")


def parallel_threads() -> int:
    """Return how many threads a parallel loop runs on: ``OMP_NUM_THREADS``, or all cores."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    if value.isdigit() and int(value):
        return int(value)
    return processors()


def processors() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _chosen_cache() -> Path | None:
    """Return the folder that variables and the platform choose, if they choose one."""
    chosen = os.environ.get("AUTOTUNE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    variable, under_home = _CACHE_PLACES.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    base = os.environ.get(variable)
    if base:
        return Path(base) / "autotune"
    try:
        return Path.home() / under_home / "autotune"
    except RuntimeError:
        return None


@cache
def _temporary_cache() -> Path:
    """Return this user's folder among the temporary files; of another user's we load no code."""
    folder = Path(tempfile.gettempdir(), f"autotune-{os.getuid()}")
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if private(folder.lstat()):
            return folder
    return Path(tempfile.mkdtemp(prefix="autotune-"))


def frozen() -> bool:
    """Return whether only pinned kernels may be used: ``AUTOTUNE_FROZEN`` is set, and not to 0."""
    return os.environ.get("AUTOTUNE_FROZEN", "").lower() not in ("", "0", "false", "no")


def lock_file() -> Path | None:
    """Return the lock that ``AUTOTUNE_LOCK`` names, if it is set."""
    named = os.environ.get("AUTOTUNE_LOCK")
    return Path(named) if named else None


def device_locks() -> Path | None:
    """Return the folder of locks on devices that ``AUTOTUNE_DEVICE_LOCKS`` names, if it is set."""
    named = os.environ.get("AUTOTUNE_DEVICE_LOCKS")
    return Path(named) if named else None


def host_compiler() -> str | None:
    """Return the C compiler the user asked for with ``CC``, if any."""
    return os.environ.get("CC", "").strip() or None


def host_cxx_compiler() -> str | None:
    """Return the C++ compiler the user asked for with ``CXX``, if any."""
    return os.environ.get("CXX", "").strip() or None


def search_path() -> str:
    """Return the folders in which programs are searched."""
    return os.environ.get("PATH", os.defpath)


def toolkit_roots() -> list[Path]:
    """Return the folders in which a CUDA toolkit may be installed, best first."""
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")]
    roots = [Path(name) for name in named if name]
    return [*roots, Path("/usr/local/cuda"), Path("/opt/cuda")]


def with_variables(added: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with some variables set, for a child."""
    return {**os.environ, **added}


def compiler_variables() -> dict[str, str]:
    """Return the variables that silently change what compilers produce; part of cache keys."""
    return {name: os.environ[name] for name in _COMPILER_VARIABLES if name in os.environ}


def compiler_flags() -> list[str]:
    """Return the flags that variables add to those on a compiler's command line."""
    return [word for name in _FLAG_VARIABLES for word in words(os.environ.get(name, ""))]


def words(text: str) -> list[str]:
    """Return the words of a command line; quotes without an end are letters like others."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def include_folders() -> list[str]:
    """Return the folders of headers that variables name."""
    values = [os.environ.get(name, "") for name in _INCLUDE_VARIABLES]
    return [folder for value in values for folder in value.split(os.pathsep) if folder]
