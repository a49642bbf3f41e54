"""The user's own headers, which are sent as text with the source that includes them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autotune.errors import FleetError
from autotune.kernel import Kernel
from autotune.runtime.compile.user_headers import (
    HEADER_FILES,
    HEADER_FOLDERS,
    anchor_paths,
    user_headers,
)
from autotune.utils.compiler_flags import parse_flags
from autotune.utils.files import write_atomically

Headers = tuple[tuple[str, str], ...]
# The most that the headers of one kernel may take: more must be a mistake.
_MOST_BYTES = 64 << 20


def pack_headers(kernel: Kernel) -> tuple[Kernel, Headers]:
    """Return a kernel with absolute paths in its flags, and the user's headers that it includes.

    Raises:
        FleetError: a header cannot be read as text.
    """
    if not kernel.flags:
        return kernel, ()
    kernel = replace(kernel, flags=anchor_paths(kernel.flags))
    found, size = [], 0
    for path, _ in user_headers(kernel.source, kernel.flags):
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FleetError(
                f"kernel {kernel.name!r}: its header {path} cannot be sent: {error}"
            ) from error
        size += len(text)
        found.append((path, text))
    if size > _MOST_BYTES:
        raise FleetError(f"kernel {kernel.name!r}: its headers take {size >> 20} MiB")
    return kernel, tuple(found)


def unpack_headers(headers: Sequence[tuple[str, str]], kernel: Kernel, folder: Path) -> Kernel:
    """Write headers into a folder of their own and return the kernel with flags that find them.

    The folders in its flags are searched on this host as well, for example for toolkit headers.
    """
    digest = hashlib.sha256(repr(tuple(headers)).encode()).hexdigest()[:32]
    root = folder / digest
    if not root.exists():
        made = folder / f"{digest}.{os.getpid()}.{id(headers)}"
        for path, text in headers:
            place = _under(made, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, text.encode())
        with suppress(OSError):  # another thread was faster
            made.rename(root)
    known = {path for path, _ in headers}
    words: list[str] = []
    for flag in parse_flags(kernel.flags, (*HEADER_FOLDERS, *HEADER_FILES)):
        here = replace(flag, value=str(_under(root, flag.value))) if flag.value else flag
        if flag.name in HEADER_FOLDERS and os.path.isabs(flag.value):
            words += [*here.words, *flag.words]
        elif flag.name in HEADER_FILES and flag.value in known:
            words += here.words
        else:
            words += flag.words
    return replace(kernel, flags=tuple(words))


def _under(root: Path, path: str) -> Path:
    """Return where a file with this path on the client is stored below a folder."""
    inner = os.path.normpath(os.path.join("/", path)).lstrip("/")
    return root / inner
