"""The user's own headers, which are part of the key of a compilation beside the source.

These are the headers in the folders and files that flags and environment variables name, and the
headers that they include. Headers of the system and of the toolkit are covered by the compiler's
version. As an ``#include`` may name its header by a macro, every macro whose value is a file name
counts as an include. Limit: file names that are composed of several macros are not found.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from autotune.kernel.comments import without_comments
from autotune.utils import environment
from autotune.utils.compiler_flags import Flag, expand_flag_files, parse_flags

_INCLUDE = re.compile(
    rb'\n[ \t]*#[ \t]*(?:include(?:_next)?|import|embed|define[ \t]+\w+)[ \t]*[<"]([^>"\n]+)[>"]'
)
# A macro that a flag defines as the name of a file.
_DEFINED = re.compile(r'\w+=[<"]([^>"\n]+)[>"]')
HEADER_FOLDERS = (
    "--include-path", "--include-directory", "--system-include", "-isystem", "-iquote",
    "-idirafter", "-I",
)  # fmt: skip
HEADER_FILES = ("--pre-include", "-include", "-imacros")
_MACROS = ("--define-macro", "-D")


def anchor_paths(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flags with the headers' folders and files absolute, and files of flags read.

    Compilers run in a folder of their own, where relative names would mean nothing.
    """
    found = parse_flags(expand_flag_files(flags), (*HEADER_FOLDERS, *HEADER_FILES))
    return tuple(word for flag in found for word in _absolute(flag).words)


def _absolute(flag: Flag) -> Flag:
    # A file that is not here may be found along the folders, as one that is included.
    if flag.name in HEADER_FILES and not os.path.exists(flag.value):
        return flag
    if not flag.value or flag.name not in (*HEADER_FOLDERS, *HEADER_FILES):
        return flag
    return Flag(flag.name, flag.between, os.path.abspath(flag.value))


def user_headers(source: str, flags: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return path and digest of each of the user's headers that a source includes.

    A name is searched in every folder, not only in the first that has it, and beside the including
    file, so that a new header which hides another changes the result.
    """
    folders, named = _search((*flags, *environment.compiler_flags()))
    folders += environment.include_folders()
    found = _find(source, folders, named)
    return sorted((path, header.digest) for path, header in found.items())


class _Header(NamedTuple):
    """A header and its contents.

    Attributes:
        digest: of its bytes.
        bare: of its text without comments.
        includes: names of the files that it includes, and of files that macros stand for.
        embeds: whether it may embed a file, of which every byte counts.
    """

    digest: str
    bare: str
    includes: tuple[str, ...]
    embeds: bool


def _find(source: str, folders: list[str], named: list[str]) -> dict[str, _Header]:
    """Return by path what a source includes, and what is read before it."""
    # The source itself has no folder: it is compiled in one that is empty but for it.
    pending = [(name, "/") for name in (*named, *_included(source.encode()))]
    tried: set[str] = set()
    found: dict[str, _Header] = {}
    while pending:
        name, beside = pending.pop()
        for folder in (beside, *folders):
            path = os.path.join(folder, name)
            header = None if path in tried else _header(path)
            tried.add(path)
            if header is not None:
                found[path] = header
                # The folder without links, so that a detour (../lib/a.h) is not taken twice.
                around = os.path.realpath(os.path.dirname(path))
                pending += [(inner, around) for inner in header.includes]
    return found


def header_contents(
    source: str, flags: tuple[str, ...], comments: bool = True
) -> tuple[list[str], list[str]]:
    """Return digests of the headers that a source finds along its own flags, and the other flags.

    Nothing of it depends on where the headers are, nor on variables of this machine.

    Args:
        source: of a kernel.
        flags: of its compiler.
        comments: whether comments and layout count.
    """
    if not flags:  # as of most kernels
        return _digests(source, _find(source, [], []).values(), comments), []
    flags = anchor_paths(flags)
    named = (*HEADER_FOLDERS, *HEADER_FILES)
    parts = parse_flags(flags, named)
    others = [word for one in parts if one.name not in named for word in one.words]
    return _digests(source, _find(source, *_search(flags)).values(), comments), others


def _digests(source: str, headers: Collection[_Header], comments: bool) -> list[str]:
    exact = comments or "embed" in source or any(one.embeds for one in headers)
    return sorted({one.digest if exact else one.bare for one in headers})


def _search(flags: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the folders that flags name, and the files that they have read."""
    folders: list[str] = []
    files: list[str] = []
    for flag in parse_flags(expand_flag_files(flags), (*HEADER_FOLDERS, *HEADER_FILES, *_MACROS)):
        # nvcc takes several, divided by commas; for others a comma belongs to the name.
        values = dict.fromkeys((flag.value, *flag.value.split(",")))
        if flag.name in HEADER_FOLDERS:
            folders += values
        elif flag.name in HEADER_FILES:
            files += values
        elif flag.name in _MACROS and (name := _DEFINED.fullmatch(flag.value)):
            files.append(name[1])
    return folders, files


def _header(path: str) -> _Header | None:
    """Return the description of a header, or None where there is none."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return None
        return _read(path, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _read(path: str, *_version: int) -> _Header:
    """Read a header once for each time it was changed; libraries of templates have hundreds."""
    with open(path, "rb") as file:
        text = file.read()
    bare = without_comments(text.decode("utf-8", "surrogateescape"))
    return _Header(
        digest=hashlib.sha256(text).hexdigest(),
        bare=hashlib.sha256(bare.encode("utf-8", "surrogateescape")).hexdigest(),
        includes=tuple(_included(text)),
        embeds=b"embed" in text,
    )


def _included(text: bytes) -> list[str]:
    # Newlines are found at once, where `^` would be tried at every character.
    return [os.fsdecode(name) for name in _INCLUDE.findall(b"\n" + text)]
