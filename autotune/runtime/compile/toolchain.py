"""Find compilers, ask their version, and learn which flags they take.

Answers are kept for the life of the process. Which flags it takes, found by compiling, is kept on
disk by the compiler's command and version, so that short-lived processes do not try again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import signal
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autotune.errors import CompilerCrashed, CompilerMissing
from autotune.utils import environment
from autotune.utils.command import Completed, run
from autotune.utils.exits import describe_exit
from autotune.utils.files import read_own, write_atomically
from autotune.utils.scratch import temporary_folder

_PROBE_TIMEOUT_S = 60.0
_VERSION_TIMEOUT_S = 15.0
# Tried in this order on an empty function; each is dropped where the compiler refuses it.
_OPTIONAL_FLAGS = ("-march=native", "-fopenmp")

# The compiler drivers report the death of a part of them, or a full machine, in these words.
_CRASHED = re.compile(
    r"died due to signal|Killed signal|terminated with signal|internal compiler error: Killed"
    r"|No space left on device|Disk quota exceeded|Cannot allocate memory|out of memory"
    r"|virtual memory exhausted|Resource temporarily unavail|unable to fork|cannot execute"
    r"|nvcc fatal\s*: (Failed to|Cannot find|Host compiler)|Traceback \(most recent call last\)"
    r"|NVRTC_ERROR_(OUT_OF_MEMORY|BUILTIN|INTERNAL|PROGRAM_CREATION)",
    re.IGNORECASE,
)
# Those of them by which somebody else killed a part of the compiler.
_KILLED = re.compile(r"Killed signal|error: Killed|Kill signal|\bsignal (9|15)\b")


@dataclass(frozen=True)
class Toolchain:
    """A compiler that exists here: its command, its version text, and the flags it accepts."""

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...] = ()


def crashed(completed: Completed) -> bool:
    """Return whether a compiler that failed died of something else than its source."""
    return _signal(completed) > 0 or bool(_CRASHED.search(completed.output))


def killed(completed: Completed) -> bool:
    """Return whether a compiler that crashed, or a part of it, was killed from outside."""
    return _signal(completed) in (signal.SIGKILL, signal.SIGTERM) or bool(
        _KILLED.search(completed.output)
    )


def _signal(completed: Completed) -> int:
    """Return the signal that a compiler, or what it ran in a shell, died of; 0 without one."""
    status = completed.returncode
    # A shell reports the death of its command by a status above 128, and nvcc passes it on.
    return -status if status < 0 else max(status - 128, 0) if status < 128 + signal.NSIG else 0


def host_toolchain(cxx: bool = False) -> Toolchain:
    """Return the host's C (or C++) compiler.

    That is ``$CC`` if set, else ``cc``, ``gcc`` or ``clang`` (``$CXX``, ``c++``, ...).

    Raises:
        CompilerMissing: the one that was asked for, or all of them, do not exist; or the one
            that was found does not tell its version.
        CompilerCrashed: it was killed, or there was no space for temporary files.
    """
    asked = environment.host_cxx_compiler() if cxx else environment.host_compiler()
    return _host_toolchain(cxx, asked, environment.search_path())


@cache
def _host_toolchain(cxx: bool, asked: str | None, search_path: str) -> Toolchain:
    names = ("c++", "g++", "clang++") if cxx else ("cc", "gcc", "clang")
    variable, language = ("CXX", "C++") if cxx else ("CC", "C")
    commands = [[name] for name in names]
    if asked:  # a program, whose path may have blanks, or a command line
        commands = [[asked], environment.words(asked)]
    for command in commands:
        path = shutil.which(command[0], path=search_path)
        if path:
            return _probe((path, *command[1:]), cxx)
    if asked:
        raise CompilerMissing(
            f"{variable}={asked}: there is no such program on PATH; set {variable} to a "
            f"{language} compiler, or unset it and one of {', '.join(names)} is taken"
        )
    raise CompilerMissing(
        f"no {language} compiler: looked for {', '.join(names)}; install one "
        "(Debian, Ubuntu: apt install build-essential; macOS: xcode-select --install) or set "
        f"{variable}"
    )


def find_nvcc() -> str | None:
    """Return the path of nvcc - on PATH, or in a toolkit folder - or None."""
    found = shutil.which("nvcc")
    if found:
        return found
    tries = (str(root / "bin" / "nvcc") for root in environment.toolkit_roots())
    return next((path for path in tries if os.access(path, os.X_OK)), None)


def nvcc_toolchain() -> Toolchain:
    """Return nvcc.

    Raises:
        CompilerMissing: there is none, or it does not tell its version.
    """
    path = find_nvcc()
    if path is None:
        roots = ", ".join(str(root / "bin") for root in environment.toolkit_roots())
        raise CompilerMissing(
            f"no nvcc: looked on PATH and in {roots}; install the CUDA toolkit "
            "(https://developer.nvidia.com/cuda-downloads) or set CUDA_HOME"
        )
    return Toolchain((path,), _version((path,)))


@cache
def host_cpu() -> str:
    """Return a digest of this machine's CPU, by the meaning of ``-march=native``."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags", "features", "cpu part")
    facts = sorted({line for line in lines if line.lower().startswith(wanted)})
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _probe(command: tuple[str, ...], cxx: bool) -> Toolchain:
    version = _version(command)
    return Toolchain(command, version, _flags(command, "c++" if cxx else "c", version))


@cache
def _version(command: tuple[str, ...]) -> str:
    """Return the version text of a compiler.

    Each process runs the compiler for it: the file on PATH is not enough, as it may be a wrapper
    (ccache, a cluster's modules) that does not change when the compiler behind it is replaced.

    Raises:
        CompilerMissing: the compiler prints no version.
    """
    shown = shlex.join([*command, "--version"])
    try:
        completed = run([*command, "--version"], _VERSION_TIMEOUT_S)
    except OSError as error:
        raise CompilerMissing(f"{shown}: cannot be run: {error}; is it a compiler?") from error
    version = completed.output.strip()
    if completed.timed_out:
        raise CompilerMissing(f"{shown}: no answer after {_VERSION_TIMEOUT_S:g} s; run it by hand")
    if completed.returncode < 0:
        raise CompilerCrashed(
            f"{shown}: {describe_exit(completed.returncode)}; try again", killed(completed)
        )
    if completed.returncode or not version:
        said = repr(version) if version else "nothing"
        raise CompilerMissing(
            f"{shown}: exit status {completed.returncode}, and it says {said}; "
            "a compiler tells its version"
        )
    return version


@cache
def _flags(command: tuple[str, ...], language: str, version: str) -> tuple[str, ...]:
    """Return the flags it accepts, from disk if this compiler was asked before."""
    identity = [*command, language, version, host_cpu()]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:24]
    path = environment.cache_dir() / "toolchains" / f"{digest}.json"
    try:
        return tuple(map(str, json.loads(read_own(path))["flags"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    flags = tuple(_accepted(command, language))
    # A cache that cannot be written costs the next process a probe, nothing more.
    write_atomically(path, json.dumps({"flags": flags}).encode(), missing_ok=True)
    return flags


def _accepted(command: tuple[str, ...], language: str) -> list[str]:
    """Return the flags with which an empty function compiles.

    Raises:
        CompilerCrashed: that cannot be told now.
    """
    try:
        with temporary_folder("probe") as folder:
            source = Path(folder, "probe.c")
            source.write_text("void probe(float *x) {\n#pragma omp parallel\n  x[0] = 1; }\n")
            return _accepted_in(folder, [*command, "-x", language, "-shared", "-fPIC"])
    except OSError as error:
        raise CompilerCrashed(
            f"{command[0]} cannot be tried out: {error}; free space for temporary files or set "
            "TMPDIR"
        ) from error


def _accepted_in(folder: str, command: list[str]) -> list[str]:
    accepted: list[str] = []
    for flag in _OPTIONAL_FLAGS:
        argv = [*command, *accepted, flag, "-o", f"{folder}/probe.so", f"{folder}/probe.c"]
        completed = run(argv, _PROBE_TIMEOUT_S, variables={"LC_ALL": "C"})
        if completed.returncode == 0:
            accepted.append(flag)
        elif crashed(completed):
            said = completed.output.strip() or describe_exit(completed.returncode)
            raise CompilerCrashed(f"{shlex.join(argv)}: {said}", killed(completed))
    return accepted
