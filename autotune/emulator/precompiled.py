"""The emulator's header, precompiled: parsing it takes a third of the time for a small kernel.

So does making machine code of the emulator itself, which is linked as an object instead.

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
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from autotune.emulator.check_flags import CHECK_FLAGS
from autotune.utils import environment
from autotune.utils.command import run

INCLUDE = Path(__file__).parent / "include"
HEADER = "autotune_emulator.h"
OBJECT = "emulator.o"
# With these the header emits nothing of the emulator; device code cannot throw. What GCC 12 says
# of lines in DWARF 5 is of the wrong file where the functions of a kernel come first.
_APART = ("-DEMULATOR_APART", "-fno-exceptions", "-gdwarf-4")
_LINKED = ("-DEMULATOR_LINKED", "-fno-exceptions", "-gdwarf-4")
# How far kernels are optimized, which is no matter of the emulator linked to them.
_LEVELS = ("-O0", "-O1")
# What is linked to that needs libraries of C alone. To look through C++'s takes as long as half of
# what else a small kernel costs, and the older linker is the quicker one, where there is one.
_OF_C = ("-nodefaultlibs", "-Wl,-z,defs", "-lm", "-lpthread", "-ldl", "-lc", "-lgcc")
_GOLD = "gold"
# It costs as much to make as four kernels gain.
_WITHOUT = 2
# Kernels that are compiled before it is tried again in a process where it could not be made.
_NEVER = 1 << 60
# It takes at most half as long as a kernel may, and is not begun where there is no time.
_PART, _LEAST_S = 0.5, 4.0
_MOST_KEPT = 8
# Between the name of a folder and what tells apart those in which it is being made.
_UNFINISHED = "-new-"
# Seconds from which such a folder may be of a killed process. Before, it is of one that goes on,
# even if its lock does not say so, as on another host or where there are no locks.
_DEAD_S = 600
_MAGIC = b"gpch"
_compiled: Counter[Path] = Counter()
_looked_at: dict[Path, bool] = {}
_links: dict[Path, list[str]] = {}


@cache
def header_digest() -> str:
    """Return a digest of the headers, so that a cache keyed by the text sees them change."""
    digest = hashlib.sha256()
    for path in sorted(filter(Path.is_file, INCLUDE.rglob("*"))):  # libcu++ has names without `.h`
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def precompiled(
    command: Sequence[str], flags: Sequence[str], timeout_s: float = 120.0
) -> list[str]:
    """Return flags that have a compiler find the header precompiled, and link the emulator.

    None if there is no such header. The machine code is not that of a whole compilation.

    Args:
        command: the compiler.
        flags: all with which it compiles kernels, but for macros that only the kernel reads.
        timeout_s: seconds that compiling the kernel at hand may take.
    """
    own = [*_APART, *flags]
    with contextlib.suppress(OSError):
        folder = _folder(tuple(command), tuple(own))
        if not _is_there(folder):
            _compiled[folder] += 1
            if _compiled[folder] <= _WITHOUT or timeout_s < _LEAST_S:
                return []
            if not _made(folder, command, own, _PART * timeout_s):
                return []
            _looked_at.pop(folder, None)
        if not _fits(folder):
            return []
        return [f"-I{folder}", *_linked(folder / OBJECT, *_links[folder])]
    return []


def _linked(object_: Path, *flags: str) -> list[str]:
    return [*_APART, "-Wl,--as-needed", "-Xlinker", str(object_), *flags]


def _folder(command: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    program = os.stat(shutil.which(command[0]) or command[0])
    variables = sorted(environment.compiler_variables().items())
    facts = [command, program.st_mtime_ns, program.st_size, flags, variables, header_digest()]
    name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
    return environment.cache_dir() / "emulator" / name


def _is_there(folder: Path) -> bool:
    return all((folder / name).exists() for name in (f"{HEADER}.gch", OBJECT))


def _fits(folder: Path) -> bool:
    """Return whether it is this user's, GCC's and undamaged, of files that are still the same.

    One that once did and does not any more is removed.
    """
    if folder not in _looked_at:
        content = _own(folder / f"{HEADER}.gch")
        linked = _own(folder / OBJECT)
        own = content is not None and linked is not None and environment.private(os.stat(folder))
        of_gcc = own and content is not None and content.startswith(_MAGIC)
        if of_gcc and not _is_as_made(folder, (content or b"") + (linked or b"")):
            shutil.rmtree(folder, ignore_errors=True)
            return False
        _looked_at[folder] = of_gcc
    return _looked_at[folder]


def _own(path: Path) -> bytes | None:
    """Return what a file holds that nobody else can write; None of another."""
    with path.open("rb") as file:
        return file.read() if environment.private(os.fstat(file.fileno())) else None


def _is_as_made(folder: Path, content: bytes) -> bool:
    try:
        facts = json.loads((folder / "facts.json").read_bytes())
        read = [_state(path) for path, *_ in facts["read"]]
        _links[folder] = [str(flag) for flag in facts["link"]]
    except (OSError, ValueError, TypeError, LookupError):
        return False
    return bool(facts == {**facts, "read": read, "sum": zlib.crc32(content)})


def _state(path: str) -> list[object]:
    status = os.stat(path)
    return [path, status.st_mtime_ns, status.st_size]


def _made(folder: Path, command: Sequence[str], flags: Sequence[str], timeout_s: float) -> bool:
    """Make it, unless another process does; return whether it is there."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    prefix = f"{folder.name}{_UNFINISHED}"
    with (
        _turn(folder) as own,
        tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as temporary,
    ):
        if not own or _is_there(folder):
            return own
        new = Path(temporary, "new")
        new.mkdir(mode=0o700)
        kept = [flag for flag in flags if flag != "-shared"]
        rules = Path(temporary, "rules")
        header = ["-x", "c++-header", "-MD", "-MF", str(rules)]
        # The emulator checks nothing of its own, and what it says has the lines of kernels alone.
        plain = [flag for flag in kept if flag not in (*_APART, *CHECK_FLAGS, *_LEVELS)]
        alone = [*_LINKED, *plain, "-O2", "-g0", "-c", "-x", "c++"]
        made = {f"{HEADER}.gch": [*kept, *header], OBJECT: alone}
        shared = _folder(tuple(command), tuple(alone)).name
        for name, options in made.items():
            if name == OBJECT and _copied(folder.parent, shared, new / name):
                continue
            argv = [*command, *options, "-o", str(new / name), str(INCLUDE / HEADER)]
            done = run(argv, timeout_s, temporary, variables={"TMPDIR": temporary})
            timeout_s -= done.seconds
            if done.returncode:
                _compiled[folder] = -_NEVER
                return False
            os.chmod(new / name, 0o600)
        content = b"".join((new / name).read_bytes() for name in made)
        link = _quick_link(command, new / OBJECT, temporary, timeout_s)
        facts = {
            "read": _read_files(rules), "sum": zlib.crc32(content), "link": link, "object": shared,
        }  # fmt: skip
        (new / "facts.json").write_text(json.dumps(facts))
        # One of which a part is gone, as where old files are swept away, is made again.
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(new, folder)
    _forget_old(folder.parent)
    return True


def _copied(parent: Path, shared: str, path: Path) -> bool:
    """Copy the emulator from beside a header of other flags; return whether there is one.

    It takes ten times as long to make as the header does.
    """
    for facts in parent.glob("*/facts.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
            if json.loads(facts.read_bytes())["object"] == shared and _fits(facts.parent):
                path.write_bytes((facts.parent / OBJECT).read_bytes())
                os.chmod(path, 0o600)
                return True
    return False


def _quick_link(command: Sequence[str], object_: Path, folder: str, timeout_s: float) -> list[str]:
    """Return the flags with which the emulator is linked soonest; none if it takes no others."""
    faster = [[f"-fuse-ld={_GOLD}"]] if shutil.which(f"ld.{_GOLD}") else []
    for flags in ([*more, *_OF_C] for more in [*faster, []]):
        argv = [*command, "-shared", *_linked(object_, *flags), "-o", "linked.so"]
        done = run(argv, timeout_s, folder, variables={"TMPDIR": folder})
        if done.returncode == 0:
            return flags
    return []


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
    """Keep as many as different compilers and architectures need, and nothing of killed makers."""
    ages = {p: p.stat().st_mtime for p in parent.iterdir() if p.is_dir()}
    folders = sorted(ages, key=ages.__getitem__)
    made = [p for p in folders if _UNFINISHED not in p.name]
    for each in made[:-_MOST_KEPT]:
        shutil.rmtree(each, ignore_errors=True)
    for each in set(folders) - set(made):
        if time.time() - ages[each] < _DEAD_S:
            continue
        with _turn(parent / each.name.partition(_UNFINISHED)[0]) as dead:
            if dead:
                shutil.rmtree(each, ignore_errors=True)
