"""Is what a kernel wrote right, and did it write nothing else? Asked of every trial.

Expected values and their bounds are on the device, where small kernels compare; only what differs
is fetched, to be described.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.kernel.kernel import Argument
from autotune.measure.compare import mismatch, most_spread
from autotune.measure.expected import Expected
from autotune.measure.jobs import Check
from autotune.measure.values import read_values
from autotune.runtime import Buffers, Executable
from autotune.runtime.array import NDArray, array
from autotune.runtime.buffers import POISONS
from autotune.runtime.inspector import Inspector


@dataclass(frozen=True)
class Findings:
    """What was found wrong.

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
    """One output: where it is expected to be found right, on the device."""

    check: Check
    argument: Argument
    values: NDArray
    bounds: NDArray | None


class Inspection:
    """The expected outputs of one task on one device, and the digests of its inputs.

    Args:
        buffers: the arguments, which no kernel has touched yet.
        checks: of the outputs in order; empty where nothing is known of them.
    """

    def __init__(self, buffers: Buffers, checks: tuple[Check, ...]) -> None:
        self.buffers = buffers
        self.checks = checks
        self._inspector = Inspector(buffers.device)
        outputs = [a for a in buffers.args if a.role != "in"]
        self._wanted = [self._uploaded(c, a) for c, a in zip(checks, outputs, strict=bool(checks))]
        for argument in outputs:
            self._inspector.prepare(argument.dtype)
        self._digests = self._digested()

    def fits(self, buffers: Buffers, checks: tuple[Check, ...]) -> bool:
        """Whether it was made for these."""
        return self.buffers is buffers and self.checks == checks

    def _uploaded(self, check: Check, argument: Argument) -> _Wanted:
        device = self.buffers.device
        bounds = array(read_values(check.bounds, "float32"), device) if check.bounds else None
        values = array(read_values(check.path, argument.dtype), device)
        return _Wanted(check, argument, values, bounds)

    def _digested(self) -> list[tuple[str, int]]:
        """Digest what is only read, and what in-place arguments are restored from."""
        pairs = zip(self.buffers.args, self.buffers.originals(), strict=True)
        return [(a.name, self._inspector.digest(one)) for a, one in pairs if one is not None]

    def run(self, executable: Executable) -> Findings:
        """Run a kernel over each poison, and look at all that it may have written."""
        differences: tuple[str, ...] = ()
        outside: list[str] = []
        for poison in POISONS:
            self.buffers.reset(poison, 0)
            executable.run(self.buffers)
            outside += [n for n in self.buffers.trespassed() if n not in outside]
            differences = self.differences()
            if differences:
                break
        now = self._digested()
        changed = [n for (n, a), (_, b) in zip(self._digests, now, strict=True) if a != b]
        return Findings(differences, tuple(changed), tuple(outside))

    def differences(self) -> tuple[str, ...]:
        """Describe how what is in the outputs now differs from what was expected."""
        return tuple(filter(None, map(self._difference, range(len(self._wanted)))))

    def _difference(self, number: int) -> str | None:
        wanted = self._wanted[number]
        got = self.buffers.written()[number]
        tally = self._inspector.compare(got, wanted.values, wanted.bounds)
        limit = most_spread(wanted.check.spread, tally.counted)
        if not tally.wrong and tally.squares <= limit**2 * max(1, tally.counted):
            return None
        return mismatch(wanted.check.name, got.numpy(), _on_host(wanted))


def _on_host(wanted: _Wanted) -> Expected:
    check = wanted.check
    bounds = read_values(check.bounds, "float32") if check.bounds else None
    values = read_values(check.path, wanted.argument.dtype)
    return Expected(values, bounds, check.spread, check.basis)
