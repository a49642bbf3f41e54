"""Checks whether a lock file still holds on the present device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autotune.driver import kernel_of
from autotune.errors import AutotuneError
from autotune.lock.entries import (
    SHOWN,
    Locked,
    compiler_of,
    device_class_of,
    machine_code,
    text_hashes,
)
from autotune.lock.functions import LockedFunction
from autotune.measure.final.recheck import Recheck, TimingConditions, recheck
from autotune.target import Target, cuda_device

Outcome = Literal["holds", "faster", "slower", "wrong", "failed", "text", "code", "elsewhere"]
_GOOD = ("holds", "faster", "elsewhere")


@dataclass(frozen=True)
class Checked:
    """The check of one entry of a lock.

    Attributes:
        title: the locked kernel.
        outcome: the result; ``"text"`` or ``"code"`` if the template or the compiler make another
            kernel now; ``"elsewhere"`` if the entry is for another class of devices, and was not
            checked.
        why: the reason, as a text.
        seconds: seconds of one run now; None if it was not timed.
    """

    title: str
    outcome: Outcome
    why: str
    seconds: float | None = None

    @property
    def good(self) -> bool:
        """Whether the entry is still valid."""
        return self.outcome in _GOOD


def check_lock(
    entries: Sequence[Locked],
    option_for: Callable[[TimingConditions], Mapping[str, object]] | None,
    fail_above: float = 0.05,
    timeout_s: float = 600.0,
) -> Iterator[Checked]:
    """Build, verify and time all that is locked for the present device.

    Args:
        entries: of a lock, whose templates are imported.
        option_for: returns who builds and who runs under given conditions, as `recheck` takes
            it; None to compare texts and machine code only, which needs no device.
        fail_above: part by which a kernel may be slower than it was locked, where noise does not
            explain more.
        timeout_s: seconds the compiler may take for one kernel.
    """
    sound = []
    for entry in entries:
        found = _static(entry, timeout_s, device=option_for is not None)
        if found is None:
            sound.append(entry)
        else:
            yield found
    if option_for is None:
        for entry in sound:
            yield Checked(entry.title, "holds", "text and machine code are the same; not timed")
        return
    waiting = list(sound)
    for one in recheck([(each.measure_input, each.result) for each in sound], option_for):
        entry = next(each for each in waiting if each.measure_input == one.measure_input)
        waiting.remove(entry)
        yield compared(entry.title, one, fail_above)


def _static(entry: Locked, timeout_s: float, device: bool) -> Checked | None:
    """Compare text and machine code; None where they are the same, or need not be."""
    target = entry.measure_input.target
    here = present_class(target) if device else device_class_of(target)
    if entry.device_class != here:
        return Checked(entry.title, "elsewhere", elsewhere(entry, here))
    try:
        kernel = kernel_of(entry.task.realise(entry.config).what, target)
        texts = text_hashes(kernel)
        if entry.text_sha256 not in texts:
            return Checked(entry.title, "text", _differs("its text", texts[0], entry.text_sha256))
        code = machine_code(kernel, target, timeout_s)
    except AutotuneError as error:
        return Checked(entry.title, "failed", str(error).strip().partition("\n")[0])
    if code != entry.code_sha256:
        why = _differs("its machine code", code, entry.code_sha256)
        return Checked(
            entry.title, "code", f"{why}; by {compiler_of(target)}, then {entry.compiler}"
        )
    return None


def elsewhere(entry: Locked | LockedFunction, here: str) -> str:
    """Return where an entry is for, and which class of devices is here."""
    return f"locked for {entry.device_class} ({entry.device}); this is {here or 'no device'}"


def _differs(what: str, now: str, then: str) -> str:
    return f"{what} is {now[:SHOWN]} now, locked is {then[:SHOWN]}"


def present_class(target: Target) -> str:
    """Return the class of the present device for a target; empty if there is none."""
    if target.backend.on_gpu and not target.emulate:
        facts = cuda_device(0)
        return f"cuda {facts.arch}" if facts else ""
    return device_class_of(target)


def compared(title: str, one: Recheck, fail_above: float) -> Checked:
    """Return what a new measurement says of a kernel that was locked with another."""
    if one.verdict in ("wrong", "failed"):
        said = one.measured.error_msg.strip().partition("\n")[0]
        return Checked(title, "wrong" if one.verdict == "wrong" else "failed", said)
    change = one.now_s / one.then_s - 1
    answer = "answer checked" if one.checked else "answer unchecked"
    why = f"{change:+.1%} of {one.then_s * 1e6:.3f} us, {answer}"
    outcome: Outcome = "holds"
    if one.verdict == "faster":
        outcome = "faster"
    elif one.verdict == "slower" and change > fail_above:
        outcome = "slower"
    return Checked(title, outcome, why, one.now_s)
