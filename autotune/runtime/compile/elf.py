"""Read sections out of ELF files, as shared objects and CUDA binaries are.

Machine code is compared by its sections, because the files around it hold names, paths and times
that differ though the code does not. Layout: System V gABI, chapters 4 and 5.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_NO_BITS = 8
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
# What a kernel does is in these: code, constants, and which functions the code calls. Notes, debug
# information and, of a CUDA binary, the names of symbols are not.
_CODE = (
    ".text", ".rodata", ".data", ".bss", ".rel", ".plt", ".symtab", ".dynsym", ".dynstr",
    ".nv.constant", ".nv.shared", ".nv.global", ".nv.info.",
)  # fmt: skip
# Where debug information is patched; not code, though called by names as above.
_DEBUG = (".rel.debug", ".rela.debug", ".rel.nv_debug", ".rela.nv_debug")
# A kernel that does nothing, in whose name stands that of another; see `cubin`.
MARK = "autotune_mark"


@dataclass(frozen=True)
class Section:
    """One named section; ``size`` counts also where there are no bytes (``.bss``)."""

    name: str
    size: int
    content: bytes


def sections(elf: bytes) -> Iterator[Section]:
    """Yield the sections of a 64-bit little-endian ELF file.

    Raises:
        ValueError: it is not such a file, or it is cut short.
    """
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    try:
        header = _HEADER.unpack_from(elf)
        offset, count, names_index = header[6], header[12], header[13]
        table = [_SECTION.unpack_from(elf, offset + i * _SECTION.size) for i in range(count)]
        names_at = table[names_index][4]
    except (struct.error, IndexError) as error:
        raise ValueError(f"the ELF file is cut short: {error}") from error
    for name, kind, _, _, start, size, *_ in table:
        end = elf.index(b"\0", names_at + name)
        content = b"" if kind == _NO_BITS else elf[start : start + size]
        yield Section(elf[names_at + name : end].decode(), size, content)


def symbol_sizes(elf: bytes) -> dict[str, int]:
    """Return the size in bytes of what each symbol of an ELF file names.

    Raises:
        ValueError: see `sections`.
    """
    found = {s.name: s.content for s in sections(elf)}
    names, table = found.get(".strtab", b""), found.get(".symtab", b"")
    sizes = {}
    for at in range(0, len(table) - _SYMBOL.size + 1, _SYMBOL.size):
        name, _, _, _, _, size = _SYMBOL.unpack_from(table, at)
        sizes[names[name : names.index(b"\0", name)].decode("utf-8", "replace")] = size
    return sizes


def functions(cubin: bytes) -> list[str]:
    """Return the names of the functions in a CUDA binary, which keeps each in its own section."""
    prefix = ".text."
    return [s.name.removeprefix(prefix) for s in sections(cubin) if s.name.startswith(prefix)]


def code_bytes(elf: bytes) -> int:
    """Return the size of the machine code in bytes; 0 for a file that is not ELF."""
    try:
        code = (s for s in sections(elf) if s.name.startswith(".text"))
        return sum(s.size for s in code if MARK not in s.name)
    except ValueError:
        return 0


def code_hash(artifact: bytes) -> str:
    """Return a digest of the machine code and the constants in an artifact.

    A file that is not ELF (a Mach-O library) is taken whole.
    """
    digest = hashlib.sha256()
    try:
        parts = sorted(
            (s.name, s.content or s.size.to_bytes(8, "little"))
            for s in sections(artifact)
            if s.name.startswith(_CODE) and not s.name.startswith(_DEBUG)
        )
    except ValueError:
        parts = [("", artifact)]
    for name, content in parts:
        digest.update(f"{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()
