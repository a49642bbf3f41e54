"""The C text of kernels on the CPU, so that many can be linked into one library."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from autotune.codegen.packed import filler_name, packed_calls, packed_name
from autotune.kernel import Kernel
from autotune.runtime.compile.elf import sections

_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION_OR_OBJECT = (1, 2)
_ALL_WORDS = re.compile(r"[A-Za-z_]\w*")


def unit_text(kernel: Kernel, built: bytes, prefix: str) -> str:
    """Return a file of C in which all that the kernel defines has names of its own.

    Args:
        kernel: in C.
        built: the shared object that was made of it, whose symbols tell what it defines.
        prefix: what the names begin with.
    """
    text = kernel.source + packed_calls(kernel)
    words = set(_ALL_WORDS.findall(text))
    names = sorted(name for name in set(_defined(built)) if name in words)
    renamed = "".join(f"#define {name} {prefix}_{name}\n" for name in names)
    return f"/* {kernel.name}: written by autotune; do not edit. */\n{renamed}{text}"


def entry_symbol(entry: str, prefix: str) -> str:
    """Return the name of the function that runs an entry."""
    return f"{prefix}_{packed_name(entry)}"


def filler_symbol(kernel: Kernel, prefix: str) -> str:
    """Return the name of the function that fills the constants."""
    return f"{prefix}_{filler_name(kernel)}"


def _defined(built: bytes) -> Iterator[str]:
    """Yield the names of the functions and variables that a shared object defines."""
    found = {section.name: section.content for section in sections(built)}
    names, table = found.get(".strtab", b""), found.get(".symtab", b"")
    for at in range(0, len(table) - _SYMBOL.size + 1, _SYMBOL.size):
        name, info, _, section, _, _ = _SYMBOL.unpack_from(table, at)
        if section and info & 15 in _FUNCTION_OR_OBJECT:
            text = names[name : names.index(b"\0", name)].decode("utf-8", "replace")
            if _ALL_WORDS.fullmatch(text):
                yield text
