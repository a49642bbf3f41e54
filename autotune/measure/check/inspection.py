"""Checks of a trial: whether its outputs are right, and whether it wrote anything else.

Expected values and their bounds are on the device, where small kernels compare; only what differs
is copied to the host, to be described.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from autotune.measure.check.compare import mismatch
from autotune.measure.check.expected import Expected, most_spread
from autotune.measure.run.jobs import Check
from autotune.measure.run.value_files import Array, read_values
from autotune.runtime.arrays.array import NDArray, array
from autotune.runtime.arrays.buffers import POISONS, Buffers, Guarded
from autotune.runtime.arrays.inspector import Inspector, Tally
from autotune.runtime.executable import Executable

Ran = TypeVar("Ran")

# A run of a wrong kernel that takes longer is not repeated: the trial has a time limit.
_SHORT_S = 0.1


@dataclass(frozen=True)
class Findings:
    """The errors that were found.

    Attributes:
        differences: of the outputs from what was expected, in words.
        overwritten: arguments that a kernel only reads by its declaration, and changed.
        outside: arguments around which it wrote.
    """

    differences: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def message(self) -> str | None:
        """All of it in one line, or None."""
        parts = list(self.differences)
        if self.outside:
            parts.insert(
                0, f"it writes outside of its arguments, around {', '.join(self.outside)}"
            )
        if self.overwritten:
            names = ", ".join(self.overwritten)
            parts.insert(0, f"it overwrites what it only reads by its declaration: {names}")
        return "; ".join(parts) or None


@dataclass(frozen=True)
class _Wanted:
    """One output: where it is, and where what is expected of it is on the device."""

    guarded: Guarded
    got: NDArray
    values: NDArray
    bounds: NDArray | None = None
    check: Check | None = None

    @property
    def guards(self) -> tuple[int, int]:
        """The bytes before and after it that must not change."""
        return self.guarded.before.nbytes, self.guarded.after.nbytes


class Inspection:
    """The expected outputs of one task on one device, and the digests of its inputs.

    Args:
        buffers: the arguments, which no kernel has touched yet.
        checks: of the outputs in order; empty where nothing is known of them.
        inspector: of the device.
    """

    def __init__(
        self, buffers: Buffers, checks: tuple[Check, ...], inspector: Inspector | None = None
    ) -> None:
        self.buffers = buffers
        self.checks = checks
        self._inspector = inspector or Inspector(buffers.device)
        pairs = zip(buffers.guards, buffers.written(), strict=True)
        known = checks or (None,) * len(buffers.guards)
        self._wanted = [
            self._upload(check, guarded, got)
            for check, (guarded, got) in zip(known, pairs, strict=True)
        ]
        for one in self._wanted:
            self._inspector.prepare(one.got.dtype)
        self._names = [
            a.name
            for a, one in zip(buffers.args, buffers.originals(), strict=True)
            if one is not None
        ]
        # Where the inspector adds up how each output differs.
        self._places: list[int | None] = [None] * len(self._wanted)
        self._inspector.begin()
        self._digests = self._digested(self._digest())

    @property
    def bytes(self) -> int:
        """The size of the expected values and their bounds on the device."""
        arrays = [a for one in self._wanted if one.check for a in (one.values, one.bounds)]
        return sum(a.nbytes for a in arrays if a is not None)

    def fits(self, buffers: Buffers, checks: tuple[Check, ...]) -> bool:
        """Whether it was made for these."""
        return self.buffers is buffers and self.checks == checks

    def _upload(self, check: Check | None, guarded: Guarded, got: NDArray) -> _Wanted:
        if check is None:
            return _Wanted(guarded, got, got)
        device = self.buffers.device
        bounds = array(read_values(check.bounds, "float32"), device) if check.bounds else None
        values = array(read_values(check.path, got.dtype), device)
        return _Wanted(guarded, got, values, bounds, check)

    def _digest(self) -> list[int]:
        """Ask for digests of what is only read and of what in-place arguments begin with."""
        return [self._inspector.digest(one) for one in self.buffers.originals() if one is not None]

    def _digested(self, places: list[int]) -> list[int]:
        answers = self._inspector.answers()
        return [answers.digest(place) for place in places]

    def run(self, executable: Executable) -> Findings:
        """Run a kernel over each poison value, and check everything that it may have written."""
        self.over_poison(lambda: executable.run(self.buffers))
        return self.findings(executable)

    def over_poison(self, run: Callable[[], Ran]) -> list[Ran]:
        """Run a kernel over each poison and compare; return what the runs returned.

        Args:
            run: the kernel, on the first set of the buffers.
        """
        self._inspector.begin()
        self._places = [None] * len(self._wanted)
        returned = []
        for poison in POISONS:
            self.buffers.reset(poison, 0)
            returned.append(run())
            self.compare()
        return returned

    def compare(self) -> None:
        """Compare what is in the outputs now, too; what `findings` says is of all comparisons."""
        for number, one in enumerate(self._wanted):
            self._places[number] = self._inspector.compare(
                one.got, one.values, one.bounds, one.guards, self._places[number]
            )

    def findings(self, executable: Executable) -> Findings:
        """Return what was wrong with all that was compared, or with what should not be written.

        Args:
            executable: runs again where what is wrong must be seen to be described.
        """
        digests = self._digest()
        answers = self._inspector.answers()
        pairs = zip(self._names, self._digests, digests, strict=True)
        changed = [name for name, before, now in pairs if answers.digest(now) != before]
        tallies = [answers.tally(place) for place in self._places if place is not None]
        both = list(zip(self._wanted, tallies, strict=True))
        outside = tuple(one.guarded.name for one, tally in both if tally.trespassed)
        differences: tuple[str, ...] = ()
        if any(_differs(one, tally) for one, tally in both):
            differences = self._describe(executable)
        return Findings(differences, tuple(changed), outside)

    def _describe(self, executable: Executable) -> tuple[str, ...]:
        """Say how the outputs differ; if they no longer do, run again to see."""
        found = self.differences()
        if found:
            return found + self._unsteady(executable)
        for poison in POISONS:
            self.buffers.reset(poison, 0)
            executable.run(self.buffers)
            found = self.differences()
            if found:
                return found + self._unsteady(executable)
        return ("its outputs differ from the reference in some runs and not in others",)

    def _unsteady(self, executable: Executable) -> tuple[str, ...]:
        """Say which outputs differ between two runs with equal arguments, if those are short.

        What rounds otherwise in each run, as a sum by atomics does, is not what made them wrong.
        """
        started = time.monotonic()
        first = _outputs_of_a_run(executable, self.buffers, self._wanted)
        if time.monotonic() - started > _SHORT_S:
            return ()
        second = _outputs_of_a_run(executable, self.buffers, self._wanted)
        pairs = zip(self._wanted, first, second, strict=True)
        names = ", ".join(
            one.check.name for one, a, b in pairs if one.check and _apart(one.check, a, b)
        )
        if not names:
            return ()
        return (
            f"two more runs with equal arguments differ in {names}: it is not deterministic (a "
            "race of threads, memory that is read before it is written, random numbers)",
        )

    def differences(self) -> tuple[str, ...]:
        """Describe how what is in the outputs now differs from what was expected."""
        self._inspector.begin()
        places = [self._inspector.compare(w.got, w.values, w.bounds) for w in self._wanted]
        answers = self._inspector.answers()
        fresh = {each.name for each in self.buffers.args if each.role == "out"}
        found = [
            mismatch(
                one.check.name,
                one.got.numpy(),
                _on_host(one.check, one.got.dtype),
                one.check.name in fresh,
            )
            for one, place in zip(self._wanted, places, strict=True)
            if one.check is not None and _differs(one, answers.tally(place))
        ]
        return tuple(filter(None, found))


def _outputs_of_a_run(
    executable: Executable, buffers: Buffers, wanted: Sequence[_Wanted]
) -> list[Array]:
    buffers.reset(POISONS[0], 0)
    executable.run(buffers)
    return [one.got.numpy() for one in wanted]


def _apart(check: Check, first: Array, second: Array) -> bool:
    """Return whether two answers are further apart than right ones may be."""
    if first.tobytes() == second.tobytes():
        return False
    bounds = 2 * read_values(check.bounds, "float32") if check.bounds else None
    return mismatch(check.name, second, Expected(first, bounds, spread=1.0)) is not None


def _differs(one: _Wanted, tally: Tally) -> bool:
    if one.check is None:
        return False
    limit = most_spread(one.check.spread, tally.counted)
    return bool(tally.wrong) or tally.squares > limit**2 * max(1, tally.counted)


def _on_host(check: Check, dtype: str) -> Expected:
    bounds = read_values(check.bounds, "float32") if check.bounds else None
    return Expected(read_values(check.path, dtype), bounds, check.spread, check.basis)
