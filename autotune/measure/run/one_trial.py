"""One trial on one device, as the parent sees it: the job that it sends, the result it returns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotune.measure.check.policy import VerifyPolicy, output_bytes
from autotune.measure.evidence import Evidence
from autotune.measure.process.died import Died
from autotune.measure.run.calibration import Time
from autotune.measure.run.device_process import DeviceProcess
from autotune.measure.run.energy import longest_s
from autotune.measure.run.jobs import RunJob, When
from autotune.measure.run.replies import Done, Failed, Ran, why_not
from autotune.measure.run.timing import TimingPolicy, costs_of, evidence_of, scale_timing
from autotune.measure.run.workload_state import WorkloadState
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult

_EMULATED = "; the emulator runs each thread on the CPU: take smaller shapes, or a longer timeout"


@dataclass(frozen=True)
class RunOptions:
    """Options of every trial; the fields are arguments of `LocalRunner`."""

    timeout_s: float
    timing: TimingPolicy
    flush: bool
    graph: bool | None
    verify: VerifyPolicy
    cooldown_s: float
    energy: bool = False

    def recorded(self, written: int) -> Mapping[str, object]:
        """Return the evidence of how a trial was treated: whatever is not the default.

        Args:
            written: bytes that its kernel writes.
        """
        return {
            "flush": self.flush or None,
            "graph": self.graph,
            "min_repeat_ms": self.timing.min_repeat_ms or None,
            "verify": self.verify.recorded(written),
        }


def job_of(
    state: WorkloadState,
    options: RunOptions,
    inp: MeasureInput,
    built: BuildResult,
    check: When = "never",
    best_s: float | None = None,
    energy: bool = False,
) -> RunJob:
    """Return the job for the process of a device that runs a candidate.

    Args:
        energy: whether its energy is measured.

    Raises:
        MeasureError: nothing was built, or the reference fails.
    """
    data = state.data(inp, built, check != "never")
    assert built.kernel is not None
    timing = _timing(options, inp)
    longer_s = longest_s(timing) if energy else 0.0
    return RunJob(
        artifact=built.artifact,
        kernel=built.kernel,
        timeout_s=options.timeout_s + longer_s,
        timing=timing,
        inputs=data.inputs,
        checks=data.checks,
        check=check,
        best_s=best_s,
        flush=options.flush,
        graph=options.graph,
        energy=energy,
        best_joules=state.best_joules if energy else None,
    )


def _timing(options: RunOptions, inp: MeasureInput) -> TimingPolicy:
    """Return how a candidate is timed: an emulated one, whose time means nothing, by one run."""
    if inp.target is None or not inp.target.emulate:
        return options.timing
    return replace(options.timing, number=1, repeat=1, min_repeat_ms=0.0, max_repeats=1)


def run_trial(
    state: WorkloadState,
    options: RunOptions,
    inp: MeasureInput,
    built: BuildResult,
    process: DeviceProcess,
) -> MeasureResult:
    """Measure one candidate on a device, in the thread of that device."""
    written = 0 if built.kernel is None else output_bytes(built.kernel)
    check: When = "never" if built.kernel is None else options.verify.check(inp, written)
    best_s = state.best_on(process.device)
    job = job_of(state, options, inp, built, check, best_s, options.energy)
    process.start()
    started, waited_s, queued_s = time.perf_counter(), process.waited_s, process.queued_s
    reply = process.run(job)
    waited_s, queued_s = process.waited_s - waited_s, process.queued_s - queued_s
    if waited_s:
        state.host.wait(waited_s)
    seconds = built.time_cost + time.perf_counter() - started - waited_s - queued_s
    if not isinstance(reply, Ran):
        return _fail(reply, inp, built, seconds)
    state.host.add(reply.host, [reply.timing])
    run_anchor = _anchor_timer(process, state, inp, built)
    factor = state.calibration.factor(process.device, job, reply.timing.median, run_anchor)
    reached = state.roofline.compare(process, job, reply.timing)
    timing = scale_timing(reply.timing, factor)
    if not timing.cut_short:
        state.note(timing.median)
    state.note_energy(reply.energy)
    evidence = evidence_of(timing) & Evidence.known(
        {
            **options.recorded(written),
            **state.calibration.recorded(process.device, factor),
            "verified": reply.verified,
            "resources": built.resources or None,
            "roofline": reached.roofline,
            "roof": reached.roof,
            "device_class": process.device_class or None,
            "energy": reply.energy,
        }
    )
    no_error = MeasureErrorNo.NO_ERROR
    return MeasureResult(costs_of(timing), no_error, seconds, time.time(), "", evidence)


def _anchor_timer(
    process: DeviceProcess, state: WorkloadState, inp: MeasureInput, built: BuildResult
) -> Time:
    """Return what times the kernel that all devices have in common on this one."""

    def run(anchor: RunJob) -> float | None:
        # The files of its inputs may have been made anew since.
        known = replace(built, artifact=anchor.artifact, kernel=anchor.kernel)
        inputs = state.data(inp, known, False).inputs
        return _median(process.run(replace(anchor, inputs=inputs, checks=(), energy=False)))

    return run


def _fail(
    reply: Done | Failed | Died, inp: MeasureInput, built: BuildResult, seconds: float
) -> MeasureResult:
    """Return the result of a trial that did not run to its end."""
    unknown = MeasureErrorNo.UNKNOWN_ERROR
    number = reply.error_no if isinstance(reply, (Failed, Died)) else unknown
    message = why_not(reply)
    if number == MeasureErrorNo.RUN_TIMEOUT and inp.target is not None and inp.target.emulate:
        message += _EMULATED
    evidence = Evidence(resources=built.resources or None)
    return MeasureResult((), number, seconds, time.time(), message, evidence)


def _median(reply: Done | Failed | Died) -> float | None:
    return reply.timing.median if isinstance(reply, Ran) else None
