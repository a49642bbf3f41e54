"""nvcc's flags in NVRTC's spelling.

NVRTC takes fewer flags than nvcc, in fewer spellings, and one value each. What concerns the host's
half of a compilation or the files it leaves has no meaning here. A flag that is not listed is
passed on, so that NVRTC says what it thinks of it.
"""

from __future__ import annotations

import re

from autotune.utils.compiler_flags import Flag, parse_flags

# A comma within a value.
_COMMA = r"\,"

_ARCHITECTURES = (
    "--gpu-architecture", "-arch", "--generate-code", "-gencode", "--gpu-code", "-code",
)  # fmt: skip
# Flags whose value may be several, divided by commas, which nvcc takes apart.
_SEVERAL = {
    "--define-macro": "--define-macro", "-D": "--define-macro",
    "--undefine-macro": "--undefine-macro", "-U": "--undefine-macro",
    "--include-path": "--include-path", "-I": "--include-path",
    "--system-include": "--include-path", "-isystem": "--include-path",
    "--pre-include": "--pre-include", "-include": "--pre-include",
    "--ptxas-options": "--ptxas-options", "-Xptxas": "--ptxas-options",
    "--diag-suppress": "--diag-suppress", "-diag-suppress": "--diag-suppress",
    "--diag-error": "--diag-error", "-diag-error": "--diag-error",
    "--diag-warn": "--diag-warn", "-diag-warn": "--diag-warn",
}  # fmt: skip
_ONE = {"--std": "--std", "-std": "--std"}
_DROPPED_WITH_VALUE = (
    *_ARCHITECTURES, "--compiler-options", "-Xcompiler", "--compiler-bindir", "-ccbin",
    "--linker-options", "-Xlinker", "--nvlink-options", "-Xnvlink", "--archive-options",
    "-Xarchive", "--optimize", "-O", "--threads", "-t", "--machine", "-m", "--default-stream",
    "-default-stream", "--keep-dir", "-keep-dir",
)  # fmt: skip
_DROPPED = {
    "-O0", "-O1", "-O2", "-O3", "-m64", "-g", "--debug", "-res-usage", "--resource-usage",
    "--expt-relaxed-constexpr", "-expt-relaxed-constexpr", "--expt-extended-lambda",
    "-expt-extended-lambda", "--extended-lambda", "-extended-lambda", "--keep", "-keep",
    "--allow-unsupported-compiler", "-allow-unsupported-compiler", "--verbose",
    "-Wno-deprecated-gpu-targets", "--cubin", "-cubin",
}  # fmt: skip


def nvrtc_flags(flags: tuple[str, ...]) -> list[str]:
    """Return nvcc's flags for NVRTC, less the architecture, which is passed apart."""
    return [
        option
        for flag in parse_flags(flags, (*_SEVERAL, *_ONE, *_DROPPED_WITH_VALUE))
        for option in _options(flag)
    ]


def _options(flag: Flag) -> list[str]:
    """Return what becomes of a flag: nothing, one option, or one for each of its values."""
    if flag.name in _DROPPED or flag.name in _DROPPED_WITH_VALUE:
        return []
    if flag.name in _ONE:
        return [f"{_ONE[flag.name]}={flag.value}"]
    if flag.name in _SEVERAL:
        values = re.split(r"(?<!\\),", flag.value)
        return [f"{_SEVERAL[flag.name]}={value.replace(_COMMA, ',')}" for value in values]
    return [flag.name]


def flag_arch(flags: tuple[str, ...]) -> str | None:
    """Return the architecture that flags name, if they name one: that of the machine code."""
    values = [f.value for f in parse_flags(flags, _ARCHITECTURES) if f.name in _ARCHITECTURES]
    real = re.findall(r"sm_\w+", " ".join(values))
    return next(iter((*real, *values)), None)
