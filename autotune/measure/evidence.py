"""The evidence of a trial besides its time: how it was timed, checked, built and raced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True)
class RacedCandidate:
    """A candidate that ran in a final race.

    Attributes:
        key: of the candidate.
        seconds: of one run, joined from all devices; None where the record does not say.
        medians, ci95, noise_floor, samples: of its timing on each device.
    """

    key: str
    seconds: float | None = None
    medians: tuple[float, ...] = ()
    ci95: tuple[tuple[float, float], ...] = ()
    noise_floor: tuple[float | None, ...] = ()
    samples: tuple[int, ...] = ()


@dataclass(frozen=True)
class Race:
    """The proof of the choice in a final race, in the record of its winner.

    Attributes:
        candidates: all that took part.
        tied: keys of those that were as fast as the fastest.
        passed_over: keys of trials as fast as the winner that did not take part, because their
            answers had not been checked.
        trial: seconds that the winner took in its own trial; None if it had none.
        default: key of the untuned choice, if it is known.
        default_trial: seconds of the untuned choice in its own trial, if it did not take part.
        rounds: how many were run, and how many were planned if the race ended early.
        risk: share of races like this one that have another winner because they end early.
        others: keys written by a later version.
    """

    candidates: tuple[RacedCandidate, ...] = ()
    tied: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    trial: float | None = None
    default: str | None = None
    default_trial: float | None = None
    rounds: tuple[int, int] | None = None
    risk: float | None = None
    others: Mapping[str, object] = field(default_factory=dict)

    @property
    def keys(self) -> set[str]:
        """Keys of all that the winner is preferred to, its own too."""
        return {one.key for one in self.candidates} | set(self.passed_over)

    @property
    def default_seconds(self) -> float | None:
        """The time of the untuned choice: in the race, or else in its own trial."""
        ran = None if self.default is None else self.seconds_of(self.default)
        return self.default_trial if ran is None else ran

    def seconds_of(self, key: str | None) -> float | None:
        """Return what one that ran took; None of any other."""
        return next((one.seconds for one in self.candidates if one.key == key), None)


@dataclass(frozen=True)
class Energy:
    """The energy of a kernel, and how it was measured.

    Attributes:
        joules: of one run, what the device takes when idle included; None where it was not
            measured because it cannot be the least.
        watts: mean power while the kernel ran again and again.
        runs: how many runs that were.
        seconds: over which the power was averaged.
        at_least: joules of one run at idle power, if that alone is more than another kernel takes.
        meter: what counted; see docs/energy.md.
    """

    joules: float | None = None
    watts: float | None = None
    runs: int | None = None
    seconds: float | None = None
    at_least: float | None = None
    meter: str = ""


@dataclass(frozen=True)
class Evidence:
    """The evidence for a result. Fields that are unknown, or do not apply, are None.

    Its fields are the keys that a record has beside AutoTVM's (`autotune.measure.evidence_json`).

    Attributes:
        ci95: confidence interval of the median, in seconds.
        noise_floor: spread of the samples relative to the median; None for one sample.
        samples: how many samples were taken.
        number: runs of one sample.
        median: in seconds, if the costs are something else, as in older records.
        cut_short: whether timing ended early because the trial was far behind the best.
        dropped: samples that were discarded because the device throttled, or because the system
            took a core from one of several threads.
        throttled: whether all samples were throttled, and kept.
        clocks: of the device: sm_mhz, memory_mhz, temperature_c.
        preempted: how many of the samples that count were interrupted by the system.
        clock: ``"cpu"`` if interrupted samples count the CPU time of the only thread instead of
            the wall-clock time.
        verified: whether the answer was compared with the reference.
        resources: as reported by the compiler: registers, spill_bytes, shared_bytes, ...
        flush, graph, min_repeat_ms: how the trial was timed, if not by default.
        verify: ``"sample"`` or ``"none"`` if not every trial was checked.
        roofline: the fraction of the device's ceiling that was reached.
        roof: data of the roofline: operations and bytes of one run, and the operations and bytes
            that the device can do in a second.
        stages: seconds before the result's timestamp at which the trial was submitted, its build
            began and ended, and its run began; the last is missing if it was not run.
        device: index of the device, if there are several.
        device_class: name and architecture of a GPU; times of equal classes may be compared.
        calibration: factor from that device's clock to that of the first device.
        same_code_as: key of the candidate whose identical machine code was measured.
        kernel_hash: the `autotune.driver.kernel_hash` of the kernel.
        template_key: from a record of version 0.1.
        energy: of one run, where it was measured.
        race: for the winner of a final race.
        others: notes of a user's builder or runner, kept unchanged as JSON.
    """

    ci95: tuple[float, float] | None = None
    noise_floor: float | None = None
    samples: int | None = None
    number: int | None = None
    median: float | None = None
    cut_short: bool | None = None
    dropped: int | None = None
    throttled: bool | None = None
    clocks: Mapping[str, object] | None = None
    preempted: int | None = None
    clock: str | None = None
    verified: bool | None = None
    resources: Mapping[str, float | None] | None = None
    flush: bool | None = None
    graph: bool | None = None
    min_repeat_ms: float | None = None
    verify: str | None = None
    roofline: float | None = None
    roof: tuple[float, ...] | None = None
    stages: tuple[float, ...] | None = None
    device: int | None = None
    device_class: str | None = None
    calibration: float | None = None
    template_key: str | None = None
    kernel_hash: str | None = None
    same_code_as: str | None = None
    energy: Energy | None = None
    race: Race | None = None
    others: Mapping[str, object] = field(default_factory=dict)

    @staticmethod
    def known(values: Mapping[str, object]) -> Evidence:
        """Return the evidence of which these fields are known.

        Logs have a hundred thousand records; all but the given fields are the class's own.
        """
        made = _new(Evidence)
        own = made.__dict__
        own["others"] = _NOTHING_ELSE
        own.update(values)
        return made

    def __and__(self, more: Evidence) -> Evidence:
        """Return all that either knows; what both know is as the second says."""
        given = {name: value for name, value in more.__dict__.items() if value is not None}
        return Evidence.known({**self.__dict__, **given, "others": {**self.others, **more.others}})


_new = Evidence.__new__
_NOTHING_ELSE: Mapping[str, object] = {}
# Fields that are keys of a record, in the order in which they are written.
NAMES = tuple(each.name for each in fields(Evidence) if each.name != "others")
NOTHING = Evidence()
