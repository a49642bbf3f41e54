"""Frozen mode: programs get the locked kernels, or an error that names similar entries.

With ``AUTOTUNE_FROZEN`` nothing is chosen by rule, by a log or in any other way: each kernel of a
template is looked up in the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from autotune.driver import kernel_of
from autotune.errors import FrozenError
from autotune.kernel import Kernel
from autotune.lock.entries import SHOWN, Locked, compiler_of, device_class_of, text_hashes
from autotune.lock.functions import LockedFunction
from autotune.lock.lock_file import LOCK_FILE, read_functions, read_lock
from autotune.record import best_of
from autotune.runtime.compile.elf import code_hash
from autotune.target import Target
from autotune.task import ConfigEntity
from autotune.task.refusals import Attempt
from autotune.task.workload import Workload
from autotune.utils import environment

# Other workloads that an error names.
_NAMED = 3
_reading = threading.Lock()
_Content = tuple[list[Locked], list[LockedFunction]]
_read: tuple[object, _Content] | None = None


def pinned(target: Target | None, workload: Workload, attempt: Attempt | None) -> ConfigEntity:
    """Return the configuration that the lock has for a workload on a target.

    Args:
        target: the target.
        workload: name and arguments of the task.
        attempt: runs the requesting template; without it the kernel's text is not compared.

    Raises:
        FrozenError: there is no configuration, or it is for another kernel text.
        LockError: there is no lock, or it cannot be read.
    """
    path, (entries, _) = _lock()
    asked = Target(target) if target is not None else None
    same = [each for each in entries if each.workload == workload]
    if not same:
        raise FrozenError(_near(path, workload, entries))
    wanted = None if asked is None else device_class_of(asked)
    if wanted is None:
        raise FrozenError(
            f"{workload[0]}{workload[1:]} was asked for without a target, and {path} has it for "
            f"{_classes(same)}: call the template within `with autotune.Target(...):`"
        )
    here = [each for each in same if each.device_class == wanted]
    if not here:
        raise FrozenError(
            f"{workload[0]}{workload[1:]} is not locked for {wanted}: {path} has "
            f"it for {_classes(same)}, where times and machine code are others; tune on this kind "
            "of device, and lock again"
        )
    chosen = _chosen(here, asked)
    if attempt is not None:
        _compare_text(path, chosen, attempt)
    return chosen.config


def known(target: Target | None, workload: Workload) -> ConfigEntity | None:
    """Return the result of `pinned`, or None where it would raise as nothing is there."""
    asked = None if target is None else Target(target)
    wanted = None if asked is None else device_class_of(asked)
    _, (entries, _) = _lock()
    here = [e for e in entries if e.workload == workload and e.device_class == wanted]
    return _chosen(here, asked).config if here else None


def _chosen(entries: Sequence[Locked], target: Target | None) -> Locked:
    """Return the entry of this very target; else the one that a log of them would give."""
    field = [each for each in entries if each.measure_input.target == target] or entries
    best = best_of((each.measure_input, each.result) for each in field)
    return next((e for e in field if best == (e.measure_input, e.result)), field[0])


def check_built(kernel: Kernel, target: Target, artifact: bytes) -> None:
    """Compare the machine code that was built with that of the lock for the same text.

    A text that is not in the lock was not tuned, and is accepted. If the text is locked for
    exactly this target, only that entry counts, since options of the target are options of the
    compiler.

    Raises:
        FrozenError: the machine code differs.
    """
    path, (entries, _) = _lock()
    texts, wanted = text_hashes(kernel), device_class_of(target)
    found = [e for e in entries if e.text_sha256 in texts and e.device_class == wanted]
    found = [e for e in found if e.measure_input.target == target] or found
    code = code_hash(artifact)
    if found and all(each.code_sha256 != code for each in found):
        first = found[0]
        raise FrozenError(
            f"{first.title}: machine code {code[:SHOWN]} was built of the locked text for the "
            f"target {target}; {path} has {first.code_sha256[:SHOWN]} for "
            f"{first.measure_input.target}, made by {first.compiler}; here it is "
            f"{compiler_of(target)}. Use that target and compiler, or lock again"
        )


def _compare_text(path: Path, entry: Locked, attempt: Attempt) -> None:
    """Raise if the template makes another kernel now of the locked configuration."""
    target = entry.measure_input.target
    try:
        texts = text_hashes(kernel_of(attempt(entry.config), target))
    except Exception as error:  # the template is the user's: whatever it raises is told
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FrozenError(
            f"{entry.title}: the template cannot make the configuration that {path} has: {why}; "
            "lock again"
        ) from error
    if entry.text_sha256 not in texts:
        raise FrozenError(
            f"{entry.title}: the kernel has another text now ({texts[0][:SHOWN]}) than the one "
            f"that was locked ({entry.text_sha256[:SHOWN]} in {path}), so its time and answer are "
            "not known; tune or verify it, and lock again"
        )


def _near(path: Path, workload: Workload, entries: Sequence[Locked]) -> str:
    """Say that a workload is not locked, and which are near it."""
    head = f"{workload[0]}{workload[1:]} is not in {path}"
    cure = "tune it and lock again, or run without AUTOTUNE_FROZEN"
    same = [each for each in entries if each.task.name == workload[0]]
    if not same:
        names = sorted({each.task.name for each in entries})
        return f"{head}, which has {', '.join(names) or 'nothing'}; {cure}"
    nearest = sorted(same, key=lambda each: (_distance(each.workload, workload), each.title))
    said = "; ".join(
        f"{each.title} on {each.device_class} ({_difference(each.workload, workload)})"
        for each in nearest[:_NAMED]
    )
    return f"{head}. Near, but not for these arguments: {said}. To go on, {cure}"


def _distance(one: Workload, other: Workload) -> int:
    """Return how many arguments differ."""
    pairs = list(zip(one[1:], other[1:], strict=False))
    return sum(bool(a != b) for a, b in pairs) + abs(len(one) - len(other))


def _difference(one: Workload, other: Workload) -> str:
    """Name the arguments that differ, by their place."""
    if len(one) != len(other):
        return f"{len(one) - 1} arguments instead of {len(other) - 1}"
    pairs = enumerate(zip(one[1:], other[1:], strict=True), start=1)
    return ", ".join(f"argument {i} is {a!r}, not {b!r}" for i, (a, b) in pairs if a != b)


def _classes(entries: Sequence[Locked]) -> str:
    return ", ".join(sorted({f"{e.device_class} ({e.device})" for e in entries}))


def locked_functions() -> tuple[Path, list[LockedFunction]]:
    """Return the lock of this process, and the functions of networks in it.

    Raises:
        LockError: there is no lock, or it cannot be read.
    """
    path, (_, functions) = _lock()
    return path, functions


def _lock() -> tuple[Path, _Content]:
    """Return the lock of this process; it is read again where it has changed."""
    global _read
    path = environment.lock_file() or Path(LOCK_FILE)
    try:
        status = path.stat()
        state: object = (str(path.resolve()), status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:
        state = None
    with _reading:
        if _read is None or state is None or _read[0] != state:
            _read = (state, (read_lock(path), read_functions(path)))
        return path, _read[1]
