"""For which CPU the host's C compiler makes code: the one that a target names, or this one."""

from __future__ import annotations

import platform
import re
import shlex
from functools import cache

from autotune.errors import TargetError
from autotune.runtime.compile.toolchain import Toolchain, host_toolchain
from autotune.target import Target
from autotune.utils.command import run

_TIMEOUT_S = 60.0
_NATIVE = "-march=native"
_NAME = re.compile(r"[\w.+-]+")
_X86 = ("x86_64", "amd64", "i686", "i386")
# Macros by which compilers tell of instructions that they use without being asked by name, and of
# tiles, which kernels ask the system for when they run.
_INSTRUCTIONS = re.compile(
    r"#define __((?:AMX|AVX|SSE|SSSE|FMA|F16C|BMI|LZCNT|POPCNT|MOVBE|XOP|TBM|ARM_FEATURE_)\w*?)"
    r"_* 1$",
    re.MULTILINE,
)


def cpu_flags(toolchain: Toolchain, target: Target) -> tuple[str, ...]:
    """Return the flags of a C compiler for a target: what it takes here, for the target's CPU.

    ``-mcpu`` of a target is the compiler's ``-march`` on x86 and its ``-mcpu`` elsewhere. A target
    that names none, or ``native``, is for the CPU of this machine.

    Raises:
        TargetError: the compiler does not know the CPU, or code for it cannot run here.
    """
    cpu = target.attrs.get("mcpu", "native")
    if cpu == "native":
        return toolchain.flags
    if not isinstance(cpu, str) or not _NAME.fullmatch(cpu):
        raise TargetError(f"target {target}: -mcpu needs the name of a CPU, got {cpu!r}")
    flag = f"-march={cpu}" if platform.machine().lower() in _X86 else f"-mcpu={cpu}"
    wanted = _instructions(toolchain, flag)
    if wanted is None:
        raise TargetError(
            f"target {target}: {shlex.join(toolchain.command)} knows no {flag}; kernels are "
            "compiled for this machine: leave -mcpu out, or name a CPU that its compiler knows"
        )
    here = _instructions(toolchain, _NATIVE)
    needed = {one for one in wanted if not one.startswith("AMX")}
    if missing := sorted(needed - (wanted if here is None else here)):
        raise TargetError(
            f"target {target}: this machine's CPU has no {', '.join(missing)}, which {cpu} has; "
            "kernels are compiled for this machine: leave -mcpu out, or name a CPU that has less"
        )
    return (flag, *[one for one in toolchain.flags if one != _NATIVE])


def cpu_instructions(target: Target) -> frozenset[str]:
    """Return the sets of instructions of a target's CPU, as compilers name them: ``AVX512F``.

    Raises:
        TargetError: the compiler does not know the CPU, or code for it cannot run here.
    """
    toolchain = host_toolchain()
    flags = cpu_flags(toolchain, target)
    march = [one for one in flags if one.startswith(("-march=", "-mcpu="))]
    return _instructions(toolchain, march[0]) or frozenset() if march else frozenset()


@cache
def _instructions(toolchain: Toolchain, flag: str) -> frozenset[str] | None:
    """Return the sets of instructions that a flag allows; None where the compiler refuses it."""
    argv = [*toolchain.command, flag, "-dM", "-E", "-x", "c", "-"]
    completed = run(argv, _TIMEOUT_S, variables={"LC_ALL": "C"})
    return frozenset(_INSTRUCTIONS.findall(completed.output)) if not completed.returncode else None
