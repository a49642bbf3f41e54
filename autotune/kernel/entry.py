"""Names of entries: of a C function, or of an instance of a C++ template."""

from __future__ import annotations

import re
import zlib

from autotune.errors import KernelError

_ENTRY = re.compile(r"[A-Za-z_]\w*|(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?:\s*<[^;{}\"#\\\n]*>)?")


def check_entry(kernel: str, entry: str, templates: bool) -> None:
    """Check that a text is the name of a function, before it becomes part of a source.

    Raises:
        KernelError: it is not, or it is an instance of a template in C.
    """
    if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
        raise KernelError(
            f"kernel {kernel!r}: entry {entry!r}: expected the name of a C function, or an "
            "instance of a template such as 'gemm<float, 4>'"
        )
    if is_expression(entry) and not templates:
        raise KernelError(
            f"kernel {kernel!r}: entry {entry!r} is not the name of a C function; templates are "
            "for CUDA, the source of this target is C: name a function, and give it its numbers "
            "by defines="
        )


def is_expression(entry: str) -> bool:
    """Whether an entry is named as C++ names it (``gemm<float, 4>``) and not as C does."""
    return not entry.isidentifier()


def identifier(name: str) -> str:
    """Return a name for files and C functions; two names never share one."""
    if name.isidentifier():
        return name
    words = re.sub(r"\W+", "_", name).strip("_")
    return f"{words}_{zlib.crc32(name.encode()):08x}"


def c_text(text: str) -> str:
    """Return a text as C and C++ write one."""
    plain = " ".join(text.split())
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain_name(entry: str) -> str:
    """Return the function's own name: without namespaces and template arguments."""
    return entry.split("<", 1)[0].split("::")[-1].strip()


def declaration_advice(entry: str) -> str:
    """Say how a kernel is declared so that it can be launched as ``entry``."""
    name = plain_name(entry)
    if "<" in entry:
        return f"declare it as `template <...> __global__ void {name}(...)`"
    if is_expression(entry):
        return f'declare it as `__global__ void {name}(...)`; one of `extern "C"` is {name!r}'
    return (
        f'declare it as `extern "C" __global__ void {name}(...)`, or name it as C++ does: '
        f"'::{name}' without `extern \"C\"`, '{name}<...>' for an instance of a template"
    )
