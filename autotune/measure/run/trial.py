"""One trial on a device, in the process that owns it: load, time and check an artifact."""

from __future__ import annotations

import time
from contextlib import ExitStack, nullcontext

import numpy as np

from autotune.errors import AutotuneError
from autotune.measure.evidence import Energy
from autotune.measure.run.device_state import DeviceState, Speak
from autotune.measure.run.energy import KernelEnergyMeter
from autotune.measure.run.jobs import CeilingJob, Job, RaceJob, ReferenceJob, RunJob
from autotune.measure.run.race_rounds import race_rounds
from autotune.measure.run.replies import Computed, Failed, Raced, Ran, Rated, Reply
from autotune.measure.run.timing import CLOSE, NO_FIRST_RUNS, FirstRuns, take_samples
from autotune.measure.types import MeasureErrorNo
from autotune.runtime.arrays.buffers import POISONS, Buffers
from autotune.runtime.executable import Executable
from autotune.runtime.roofline import ceilings_of
from autotune.runtime.timing import Sampler, TimeOptions, TimesSingleRuns, Timing


class Phases:
    """Seconds of a trial by what was done: all of it is the way to a few samples.

    Attributes:
        seconds: by phase; "time" is how long the device was at work to be timed.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def end(self, phase: str) -> None:
        """Count the time since the phase before for this one."""
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now


def run_job(state: DeviceState, job: Job, speak: Speak) -> Reply:
    """Do one job and return the reply; a failure of the device is a reply as well."""
    try:
        match job:
            case RunJob():
                return _trial(state, job, speak)
            case RaceJob():
                return _race(state, job, speak)
            case ReferenceJob():
                return _reference(state, job)
            case CeilingJob(again=again):
                speak("quiet")
                with state.alone(speak):
                    return Rated(ceilings_of(state.device, again))
    except MemoryError as error:
        return failure(f"out of memory: {error}")
    except (AutotuneError, OSError) as error:
        return failure(str(error))


def failure(message: str) -> Failed:
    """Return the reply of a trial that failed on its device."""
    return Failed(MeasureErrorNo.RUNTIME_DEVICE, message)


def _trial(state: DeviceState, job: RunJob, speak: Speak) -> Reply:
    phases = Phases()
    buffers, unshared = _arguments(state, job, speak)
    phases.end("inputs")
    with state.load(job.artifact, job.kernel, job.timeout_s) as executable:
        options = TimeOptions(flush_cache=job.flush, use_graph=job.graph)
        sampler = state.sampler(executable, buffers, options)
        phases.end("load")
        speak("quiet")
        phases.end("quiet")
        wrong = None
        with state.alone(speak):
            meter = state.energy_meter() if job.energy else None
            phases.end("turn")
            with state.watch() as watch:
                first = _first_runs(state, job, sampler)
                timing = take_samples(sampler, job.timing, job.best_s, first)
            energy = None if meter is None else _energy(meter, job, sampler, timing.median)
            phases.end("time")
            checked = _must_check(job, timing, energy)
            if checked:
                speak("done")
                again = bool(first.seconds) and not timing.cut_short
                wrong = _wrong(state, job, executable, unshared, bool(first.seconds), again)
        phases.end("check")
    phases.end("unload")
    if wrong:
        return Failed(MeasureErrorNo.WRONG_ANSWER, wrong, phases=phases.seconds)
    return Ran(timing, checked and job.tells, watch.use, phases.seconds, energy)


def _energy(meter: KernelEnergyMeter, job: RunJob, sampler: Sampler, seconds: float) -> Energy:
    """Return the energy of one run; of one that cannot take the least, only a bound."""
    beaten = meter.out_of_reach(seconds, job.best_joules) if job.timing.hopeless else None
    return beaten or meter.take(sampler, job.timing, job.best_joules)


def _arguments(state: DeviceState, job: RunJob, speak: Speak) -> tuple[Buffers, bool]:
    """Return the arguments of a trial, and whether no kernel has run since they were made.

    What fills the memory of a device takes its bandwidth from whatever is timed there.
    """
    fills = state.device.kind != "cpu" and not state.holds(job.kernel.args, job.inputs)
    with state.alone(speak) if fills else nullcontext():
        if job.check != "never":
            state.inspection(job)  # while nobody has touched the inputs
        return state.buffers(job.kernel.args, job.inputs), state.fresh(job)


def _first_runs(state: DeviceState, job: RunJob, sampler: Sampler) -> FirstRuns:
    """Let the runs that warm up be those that are compared, where single runs can be timed.

    Each is over another poison. The samples begin over one as well, and after them the outputs
    are compared again: what is timed computes, too. Where the comparison is to come later nothing
    is begun.
    """
    if job.check != "always" or not isinstance(sampler, TimesSingleRuns):
        return NO_FIRST_RUNS
    inspection = state.inspection(job)

    def poison() -> None:
        inspection.buffers.reset(POISONS[0], 0)
        sampler.rewind()

    return FirstRuns(tuple(inspection.over_poison(sampler.single)), poison)


def _must_check(job: RunJob, timing: Timing, energy: Energy | None = None) -> bool:
    """Whether to compare: whatever may yet turn out to be the best is a possible winner."""
    if job.check == "never":
        return False
    near = job.best_s is None or timing.median <= CLOSE * job.best_s
    if energy is not None and energy.joules is not None:
        near = near or job.best_joules is None or energy.joules <= CLOSE * job.best_joules
    return job.check == "always" or near


def _wrong(
    state: DeviceState,
    job: RunJob,
    executable: Executable,
    unshared: bool,
    begun: bool,
    again: bool,
) -> str | None:
    """Compare with the reference, or finish a comparison that was ``begun``; return what is wrong.

    A candidate is not blamed for inputs that another one overwrote: if shared inputs have changed,
    they are restored and the comparison is made ``again``. Only the candidate itself can have
    changed ``unshared`` inputs.
    """
    inspection = state.inspection(job)
    if again:
        inspection.compare()
    found = inspection.findings(executable) if begun else inspection.run(executable)
    if (found.overwritten or found.outside) and not unshared:
        state.forget()
        found = state.inspection(job).run(executable)
    if found.overwritten or found.outside:
        state.forget()
    return found.message


def _race(state: DeviceState, job: RaceJob, speak: Speak) -> Reply:
    with ExitStack() as loaded:
        samplers = []
        for run in job.runs:
            made = state.load(run.artifact, run.kernel, job.timeout_s)
            executable = loaded.enter_context(made)
            buffers = state.buffers(run.kernel.args, run.inputs)
            options = TimeOptions(flush_cache=run.flush, use_graph=run.graph)
            samplers.append(state.sampler(executable, buffers, options))
        speak("quiet")
        with state.alone(speak), state.watch() as watch:
            timings = race_rounds(
                samplers, job.rounds, job.least_s, job.seed, is_busy=watch.is_waiting
            )
    return Raced(tuple(timings), watch.use)


def _reference(state: DeviceState, job: ReferenceJob) -> Reply:
    buffers = state.buffers(job.kernel.args, job.inputs)
    with state.load(job.artifact, job.kernel, job.timeout_s) as executable:
        executable.run(buffers)
        for path, values in zip(job.outputs, buffers.read(), strict=True):
            np.save(path, values, allow_pickle=False)
    return Computed()
