"""Jobs for the processes that run kernels: frozen data, text and numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from autotune.kernel.kernel import Kernel
from autotune.measure.exclusive.lock import DeviceLock
from autotune.measure.run.timing import TimingPolicy
from autotune.target import Target
from autotune.utils.frozen import remade

# Of trials of a candidate: those that are compared with the reference.
When = Literal["never", "best", "always"]


@dataclass(frozen=True)
class WorkerSetup:
    """The first message to a run worker: where it runs.

    Attributes:
        target: the target for which the kernels are built.
        device: index of the device.
        isolated: whether each trial gets a forked process (kernels that share our address space).
        memory_bytes: the most memory that a forked trial may map; 0 for no limit.
        restored: environment variables that were changed for the worker itself, with the values
            that its trials get; None removes a variable.
        lock: held while a kernel is timed or checked on the device; None for no lock.
    """

    target: str
    device: int
    isolated: bool
    memory_bytes: int = 0
    restored: tuple[tuple[str, str | None], ...] = ()
    lock: DeviceLock | None = None

    @property
    def stops(self) -> bool:
        """Whether its kernels can be stopped with a report of what they do: emulated ones."""
        return self.isolated and Target(self.target).emulate


@dataclass(frozen=True)
class Check:
    """Expected output and how close to it is right; see `measure.check.expected.Expected`.

    Attributes:
        name: of the argument.
        path: file of the expected values, in the dtype of the argument.
        bounds: file of what each element may be off; empty where none may.
        spread, basis: as of `Expected`.
        tells: whether a result that is within the bounds is verified: zeros would not be.
    """

    name: str
    path: str
    bounds: str = ""
    spread: float = 1.0
    basis: str = ""
    tells: bool = True


@dataclass(frozen=True)
class RunJob:
    """Load an artifact, time it, and check what it computes.

    Attributes:
        inputs: files with the values of the arguments that are read, in order.
        checks: expected outputs; empty when nothing is known.
        check: ``"never"``, ``"best"`` (when it is faster than `best_s`) or ``"always"``.
        best_s: seconds of the best candidate so far.
        energy: whether the energy of a run is measured.
        best_joules: the least energy of a candidate so far.
    """

    artifact: str
    kernel: Kernel
    timeout_s: float
    timing: TimingPolicy
    inputs: tuple[str, ...]
    checks: tuple[Check, ...]
    check: When
    best_s: float | None = None
    flush: bool = False
    graph: bool | None = None
    energy: bool = False
    best_joules: float | None = None

    @property
    def tells(self) -> bool:
        """Whether a result that passes the checks is verified by them."""
        return bool(self.checks) and all(one.tells for one in self.checks)

    def __reduce__(self) -> tuple[object, ...]:
        """Return the job with its parts as plain data; see `Kernel.__reduce__`."""
        checks = [one.__dict__ for one in self.checks]
        return _whole, ({**self.__dict__, "timing": self.timing.__dict__, "checks": checks},)


def _whole(plain: dict[str, Any]) -> RunJob:
    """Return the job that `RunJob.__reduce__` took apart."""
    plain["timing"] = remade(TimingPolicy, plain["timing"])
    plain["checks"] = tuple([remade(Check, own) for own in plain["checks"]])
    return remade(RunJob, plain)


@dataclass(frozen=True)
class RaceJob:
    """Time several artifacts in turn, round by round.

    Attributes:
        rounds: samples of each.
        least_s: least duration of a sample.
        seed: of the order within each round.
    """

    runs: tuple[RunJob, ...]
    rounds: int
    least_s: float
    timeout_s: float
    seed: int


@dataclass(frozen=True)
class ReferenceJob:
    """Run an artifact once and write its outputs to files."""

    artifact: str
    kernel: Kernel
    timeout_s: float
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class CeilingJob:
    """Measure what the device can do, or find it on disk.

    Attributes:
        timeout_s: how long that may take.
        again: whether it is measured though it is known, because a kernel was faster.
    """

    timeout_s: float
    again: bool = False


Job = RunJob | RaceJob | ReferenceJob | CeilingJob
