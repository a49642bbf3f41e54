"""The compile cache on disk: what was compiled once is never compiled again on this machine.

One entry is one file - the digest of all that follows, a JSON head of one line, the bytes of the
artifact - named by the digest of everything that decides the result. A file that a disk or a power
cut damaged does not fit its own digest, and is compiled again. It is written under a temporary
name and renamed, so that any number of processes share the folder without locks: a reader sees a
whole entry or none, and two writers of one entry write the same thing. A compiler's refusal is an
entry too, so that a source known to be bad costs nothing the second time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autotune.utils import environment
from autotune.utils.files import read_own, write_atomically

DEFAULT_BYTES = 1 << 30
# After eviction this part of the bound is in use, so that not every store has to evict.
_KEPT = 0.8
_SCHEMA = 3


@dataclass(frozen=True)
class CacheEntry:
    """An entry of the cache: one compilation.

    Attributes:
        artifact: the bytes of the cubin or shared object; empty when the compiler refused.
        error: the compiler's refusal; empty on success.
        log: everything the compiler printed.
        entries: per entry point, what the compiler reports: registers, spills, shared bytes.
        code_hash: digest of the machine code, without how it is launched.
        code_bytes: size of the machine code.
    """

    artifact: bytes
    error: str = ""
    log: str = ""
    entries: dict[str, dict[str, int]] = field(default_factory=dict)
    code_hash: str = ""
    code_bytes: int = 0


class BuildCache:
    """A bounded folder of entries, least recently used evicted first.

    Args:
        folder: where; by default ``build`` under `autotune.utils.environment.cache_dir`.
        max_bytes: most bytes kept. It may be passed for a moment, by what all writers store
            between two looks of one of them at the folder.
    """

    def __init__(self, folder: Path | None = None, max_bytes: int = DEFAULT_BYTES) -> None:
        self.folder = folder or environment.cache_dir() / "build"
        self.max_bytes = max_bytes
        # Unknown until the first store looks at the folder.
        self._room: int | None = None

    def get(self, key: str) -> CacheEntry | None:
        """Return the entry of ``key`` and mark it as used, or None.

        A damaged entry is ignored, and so is one that another user may have written, since its
        contents will be executed.
        """
        path = self._path(key)
        try:
            digest, _, content = read_own(path).partition(b"\n")
            if digest != _digest(content):
                return None
            head, _, artifact = content.partition(b"\n")
            facts = json.loads(head)
            if facts.pop("schema") != _SCHEMA:
                return None
            entry = CacheEntry(artifact, **facts)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return entry

    def put(self, key: str, entry: CacheEntry) -> None:
        """Store an entry, if the folder can be written."""
        facts = {k: v for k, v in asdict(entry).items() if k != "artifact"}
        content = json.dumps(facts | {"schema": _SCHEMA}).encode() + b"\n" + entry.artifact
        content = _digest(content) + b"\n" + content
        if len(content) > self.max_bytes:
            return
        write_atomically(self._path(key), content, missing_ok=True)
        if self._room is None or self._room < len(content):
            self.evict()
        else:
            self._room -= len(content)

    def evict(self) -> None:
        """Delete the least recently used entries until the folder is well within its bound."""
        files = sorted(self._files(), reverse=True)
        total = sum(size for _, size, _ in files)
        limit = self.max_bytes if total <= self.max_bytes else int(self.max_bytes * _KEPT)
        while files and total > limit:
            _, size, path = files.pop()
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        # Other processes store too; looking again after a part of the limit keeps the total within
        # it.
        self._room = max(0, self.max_bytes - total) // 4

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _files(self) -> list[tuple[float, int, Path]]:
        files = []
        with contextlib.suppress(OSError):  # a folder that may not be looked into
            for path in self.folder.glob("*/*"):
                with contextlib.suppress(OSError):
                    status = path.stat()
                    files.append((status.st_mtime, status.st_size, path))
        return files


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
