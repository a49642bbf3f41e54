"""Inputs and results of measuring, and their error numbers: the names of AutoTVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol

from autotune.kernel.kernel import Kernel
from autotune.measure.evidence import NOTHING, Evidence
from autotune.measure.evidence_json import from_notes, to_json
from autotune.target import Target
from autotune.workload import Candidate, Reference, Workload


def median(samples: Sequence[float]) -> float:
    """Return the middle of the samples, or the mean of the two in the middle."""
    ordered = sorted(samples)
    half = (len(ordered) - 1) // 2
    middle = ordered[half : len(ordered) - half]
    return sum(middle) / len(middle)


def without_extremes(samples: Sequence[float]) -> tuple[float, ...]:
    """Return the samples in ascending order, of more than two without the least and the greatest.

    These are the costs that AutoTVM keeps. Their median is that of all samples.
    """
    ordered = sorted(samples)
    return tuple(ordered[1:-1] if len(ordered) > 2 else ordered)


# Nothing runs in less than a picosecond; what says so did not time anything.
LEAST_S = 1e-12


class MeasureErrorNo(IntEnum):
    """Why a trial failed; the numbers are AutoTVM's, as logs have them."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


class MeasureInput(NamedTuple):
    """One requested trial: this configuration of this task on this target.

    The names are AutoTVM's. The task is any `autotune.workload.Workload`, the configuration any
    `Candidate` of it; measuring, races and logs know no more of them than that.
    """

    target: Target
    task: Workload
    config: Candidate

    @property
    def key(self) -> str:
        """The key of what is tried, among all of its workload."""
        return self.config.key


class NamesTrial(Protocol):
    """An input with names of its own for the parts of a trial, such as the auto-scheduler's."""

    def trial(self) -> MeasureInput:
        """Return the trial."""
        ...


def as_trial(given: MeasureInput | NamesTrial) -> MeasureInput:
    """Return a trial as measuring knows it."""
    return given if isinstance(given, MeasureInput) else given.trial()


class Seconds(float):
    """A time; scripts of TVM's auto-scheduler ask for its ``value``."""

    __slots__ = ()

    @property
    def value(self) -> float:
        """The number itself."""
        return float(self)


class _Result(NamedTuple):
    costs: tuple[float, ...]
    error_no: int
    all_cost: float
    timestamp: float
    error_msg: str = ""
    evidence: Evidence = NOTHING


def _times(costs: Iterable[float]) -> tuple[float, ...]:
    """Return costs; scripts of AutoTVM may put errors in the place of times."""
    return tuple([Seconds(each) if _is_real(each) else each for each in costs])


def _is_real(cost: object) -> bool:
    """Whether a value is a float, of Python or of numpy (in 32 bits too), and not an int."""
    return isinstance(cost, float) or (isinstance(cost, Real) and not isinstance(cost, Integral))


class MeasureResult(_Result):
    """The result of one trial.

    AutoTVM's four fields come first. A builder or runner of yours may give ``extra=``, a dict of
    what it knows, in place of ``evidence``.

    Attributes:
        costs: seconds per run, one number for each sample, without the least and the greatest of
            more than two, as in AutoTVM. Empty when the trial failed.
        error_no: a `MeasureErrorNo`.
        all_cost: seconds this trial took in all, build included.
        timestamp: seconds since the epoch when it ended.
        error_msg: the compiler's, device's or checker's own words; empty on success.
        evidence: what else is known (resources, confidence interval, clocks, ...).
    """

    __slots__ = ()

    def __new__(
        cls,
        costs: tuple[float, ...],
        error_no: int,
        all_cost: float,
        timestamp: float,
        error_msg: str = "",
        evidence: Evidence | Mapping[str, object] | None = NOTHING,
        *,
        extra: Mapping[str, object] | None = None,
    ) -> MeasureResult:
        """Return a result; the sixth argument was ``extra`` once and may still be a dict."""
        known = evidence if isinstance(evidence, Evidence) else from_notes(evidence or {})
        if extra is not None:
            known &= from_notes(extra)
        return super().__new__(cls, _times(costs), error_no, all_cost, timestamp, error_msg, known)

    def _replace(self, **changes: Any) -> MeasureResult:
        """Return a copy with other fields, of which ``extra`` may be one."""
        if "extra" in changes:
            changes["evidence"] = from_notes(changes.pop("extra"))
        if "costs" in changes:
            changes["costs"] = _times(changes["costs"])
        return super()._replace(**changes)

    @property
    def extra(self) -> dict[str, object]:
        """The evidence as plain data: the keys of a record beside AutoTVM's."""
        return to_json(self.evidence)

    @property
    def ok(self) -> bool:
        """Whether the trial gave a time."""
        return self.error_no == MeasureErrorNo.NO_ERROR

    @property
    def seconds(self) -> float:
        """Seconds of one run, the median of `costs`; infinite without costs.

        This is the one number by which trials are compared, ranked and shown.
        """
        if self.error_no or not self.costs:
            return float("inf")
        return _time(self.costs[0] if len(self.costs) == 1 else median(self.costs))

    @property
    def spread(self) -> float | None:
        """Spread of one sample relative to `seconds`; None if unknown; `Timing.noise_floor`."""
        spread = self.evidence.noise_floor
        return None if spread is None else float(spread)

    @property
    def joules(self) -> float | None:
        """Energy of one run; None where it was not measured, see `Evidence.energy`."""
        energy = self.evidence.energy
        return energy.joules if self.ok and energy is not None else None

    @property
    def watts(self) -> float | None:
        """Mean power while it ran; None where it was not measured."""
        energy = self.evidence.energy
        return energy.watts if self.ok and energy is not None else None

    @property
    def mean(self) -> float:
        """Mean of `costs`, by which AutoTVM ranks."""
        if not self.ok or not self.costs:
            return float("inf")
        return _time(sum(self.costs) / len(self.costs))

    def __repr__(self) -> str:
        error = MeasureErrorNo(self.error_no)
        text = f"costs={self.costs!r}, error_no={error.name}, all_cost={self.all_cost:.3f}, "
        text += f"timestamp={self.timestamp!r}"
        return f"MeasureResult({text}" + (
            f", error_msg={self.error_msg!r})" if not self.ok else ")"
        )


def _time(seconds: float) -> float:
    """Return a time; infinity if it is impossibly short, so that no kernel wins by it."""
    return seconds if seconds >= LEAST_S else float("inf")


# An ended trial, as AutoTVM hands it around.
Pair = tuple[MeasureInput, MeasureResult]


@dataclass(frozen=True)
class BuildResult:
    """The result of building one candidate.

    Attributes:
        artifact: path of the cubin or shared object; empty when building failed.
        kernel: what was built (argument shapes, launches); None when instantiation failed.
        resources: registers, spill_bytes, shared_bytes, ... as the compiler reports them.
        error_no: a `MeasureErrorNo`.
        error_msg: the compiler's own text.
        time_cost: seconds spent building; near 0 on a cache hit.
        code_hash: hash of the machine code and launches; equal hashes need one measurement.
        reference: how the right answer comes about; None where the builder does not tell, and the
            input is asked.
    """

    artifact: str
    kernel: Kernel | None
    resources: dict[str, int] = field(default_factory=dict)
    error_no: int = 0
    error_msg: str = ""
    time_cost: float = 0.0
    code_hash: str = ""
    reference: Reference | None = field(default=None, repr=False, compare=False)

    @property
    def filename(self) -> str:
        """TVM's name of `artifact`."""
        return self.artifact

    def mark(
        self, result: MeasureResult, stages: tuple[float, ...] | None = None
    ) -> MeasureResult:
        """Note in a result which kernel it is of, so that no other is taken for it later.

        Args:
            result: of running what was built.
            stages: when the trial passed them, see `Evidence`.
        """
        known = self.kernel.kernel_hash if self.kernel is not None else ""
        if not known and stages is None:
            return result
        more = Evidence.known({"kernel_hash": known or None, "stages": stages})
        return result._replace(evidence=result.evidence & more)

    @property
    def ok(self) -> bool:
        """Whether there is an artifact to run."""
        return self.error_no == MeasureErrorNo.NO_ERROR
