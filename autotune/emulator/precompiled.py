"""The emulator's header, precompiled: parsing it takes a third of the time for a small kernel.

GCC takes ``header.h.gch`` in place of ``header.h`` if it was made by the same compiler with the
same options, and ignores any other (GCC manual, Precompiled Headers). One is made in the cache
once a process has compiled some kernels without. It is optional: its dependencies are checked once
a process, and the caller compiles a kernel that fails with it again without.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from autotune.utils import environment
from autotune.utils.command import run

INCLUDE = Path(__file__).parent / "include"
HEADER = "autotune_emulator.h"
# It costs as much to make as three kernels gain.
_WITHOUT = 2
# Kernels that are compiled before it is tried again in a process where it could not be made.
_NEVER = 1 << 60
# It takes at most half of the time for a kernel, and is not begun where there is no time.
_PART, _LEAST_S = 0.5, 4.0
_MOST_KEPT = 8
_MAGIC = b"gpch"
_compiled: Counter[Path] = Counter()
_looked_at: dict[Path, bool] = {}


@cache
def header_digest() -> str:
    """Return a digest of the headers, so that a cache keyed by the text sees them change."""
    digest = hashlib.sha256()
    for path in sorted(INCLUDE.rglob("*.h")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def precompiled(
    command: Sequence[str], flags: Sequence[str], timeout_s: float = 120.0
) -> list[str]:
    """Return flags that have a compiler find the header precompiled; none if it is not.

    Args:
        command: the compiler.
        flags: all with which it compiles kernels, but for macros that only the kernel reads.
        timeout_s: seconds that there are for the kernel at hand.
    """
    with contextlib.suppress(OSError):
        folder = _folder(tuple(command), tuple(flags))
        if not _is_there(folder):
            _compiled[folder] += 1
            if _compiled[folder] <= _WITHOUT or timeout_s < _LEAST_S:
                return []
            if not _made(folder, command, flags, _PART * timeout_s):
                return []
        return [f"-I{folder}"] if _fits(folder) else []
    return []


def _folder(command: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    program = os.stat(shutil.which(command[0]) or command[0])
    variables = sorted(environment.compiler_variables().items())
    facts = [command, program.st_mtime_ns, program.st_size, flags, variables, header_digest()]
    name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
    return environment.cache_dir() / "emulator" / name


def _is_there(folder: Path) -> bool:
    return (folder / f"{HEADER}.gch").exists()


def _fits(folder: Path) -> bool:
    """Return whether it is this user's, GCC's and undamaged, of files that are still the same.

    One that once did and does not any more is removed.
    """
    if folder not in _looked_at:
        with (folder / f"{HEADER}.gch").open("rb") as file:
            own, content = environment.private(os.fstat(file.fileno())), file.read()
        of_gcc = own and environment.private(os.stat(folder)) and content.startswith(_MAGIC)
        if of_gcc and not _is_as_made(folder, content):
            shutil.rmtree(folder, ignore_errors=True)
            return False
        _looked_at[folder] = of_gcc
    return _looked_at[folder]


def _is_as_made(folder: Path, content: bytes) -> bool:
    try:
        facts = json.loads((folder / "facts.json").read_bytes())
        read = [_state(path) for path, *_ in facts["read"]]
    except (OSError, ValueError, TypeError, LookupError):
        return False
    return bool(facts == {"read": read, "sum": zlib.crc32(content)})


def _state(path: str) -> list[object]:
    status = os.stat(path)
    return [path, status.st_mtime_ns, status.st_size]


def _made(folder: Path, command: Sequence[str], flags: Sequence[str], timeout_s: float) -> bool:
    """Make it, unless another process does; return whether it is there."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _turn(folder) as own, tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        if not own or _is_there(folder):
            return own
        new = Path(temporary, "new")
        new.mkdir(mode=0o700)
        kept = [flag for flag in flags if flag != "-shared"]
        out, rules = str(new / f"{HEADER}.gch"), str(Path(temporary, "rules"))
        argv = [*command, *kept, "-x", "c++-header", "-MD", "-MF", rules, "-o", out]
        done = run(
            [*argv, str(INCLUDE / HEADER)], timeout_s, temporary, variables={"TMPDIR": temporary}
        )
        if done.returncode:
            _compiled[folder] = -_NEVER
            return False
        os.chmod(out, 0o600)
        facts = {"read": _read_files(Path(rules)), "sum": zlib.crc32(Path(out).read_bytes())}
        (new / "facts.json").write_text(json.dumps(facts))
        os.replace(new, folder)
    _forget_old(folder.parent)
    return True


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[bool]:
    """Say whether this process alone makes it; without such locks (Windows) each may."""
    try:
        import fcntl
    except ImportError:
        yield True
        return
    with folder.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _read_files(rules: Path) -> list[list[object]]:
    """Return the files that the compiler read, by its rule for make."""
    _, _, names = rules.read_text().replace("\\\n", " ").partition(":")
    return [_state(name) for name in names.split()]


def _forget_old(parent: Path) -> None:
    """Keep as many as different compilers and architectures need."""
    made = sorted((p for p in parent.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    for each in made[:-_MOST_KEPT]:
        shutil.rmtree(each, ignore_errors=True)
