"""The child process that owns a device: one trial after another, until its parent ends.

Started by `autotune.measure.run.runner`. On a CPU every trial runs in a fork of this process, see
`autotune.measure.process.isolate`. On a GPU trials run in this process, which owns the context;
after an error that may have poisoned the context it says so and ends, and the parent starts
another.
"""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from dataclasses import replace

from autotune.emulator.stop import StopFlag
from autotune.errors import AutotuneError, CompilerCrashed, CompileTimeout
from autotune.measure.process.died import Died
from autotune.measure.process.isolate import ForkFailed, in_fork
from autotune.measure.run.device_state import DeviceState, Speak
from autotune.measure.run.jobs import CeilingJob, Job, RaceJob, ReferenceJob, RunJob, WorkerSetup
from autotune.measure.run.lock_waits import is_of_lock
from autotune.measure.run.replies import Failed, Reply, Unable, reply_of, to_json
from autotune.measure.run.trial import failure, run_job
from autotune.measure.types import MeasureErrorNo
from autotune.runtime.arrays.array import empty
from autotune.runtime.device import device
from autotune.runtime.host.executable import rotation
from autotune.runtime.host.host_helper import host_helper
from autotune.runtime.timing import summarize
from autotune.target import Target
from autotune.utils.child import Port, adopt, error_text

# Set to 1 for this process, so that numpy starts no threads in it: it forks.
QUIET_NUMPY = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(port: Port) -> None:
    """Greet, then serve run jobs."""
    setup: WorkerSetup = port.receive()
    tempfile.gettempdir()  # settles where temporary files go, before the user's own is restored
    try:
        chosen = device(Target(setup.target), setup.device)
        stop = StopFlag() if setup.stops else None
        state = DeviceState(chosen, lock=setup.lock, stop=stop)
        if setup.isolated:
            adopt()
            _warm_up()
        else:
            port.watch()
            _open(state)
    except CompileTimeout as error:
        port.send({"error": str(error)})
        return
    except (CompilerCrashed, OSError, MemoryError) as error:
        port.send({"error": f"{type(error).__name__}: {error}", "passing": True})
        return
    except AutotuneError as error:
        port.send({"error": str(error)})
        return
    # They were for this process, which has read them by now; kernels must find the user's own.
    for name, value in setup.restored:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    port.send({})
    if setup.isolated:
        _serve_forks(port, state, setup, stop)
    else:
        _serve_here(port, state)


def _open(state: DeviceState) -> None:
    """Make the context and what compares floats now, so that no trial pays for it."""
    empty((1,), "int8", state.device)
    with contextlib.suppress(AutotuneError):  # the first trial will say why
        state.inspector().prepare("float32")


def _warm_up() -> None:
    """Load what every forked process would otherwise load itself."""
    host_helper()
    summarize([1.0, 2.0, 3.0], 1).to_json()


def _serve_forks(
    port: Port, state: DeviceState, setup: WorkerSetup, stop: StopFlag | None
) -> None:
    while True:
        job: Job = port.receive()

        def trial(speak: Speak, job: Job = job) -> dict[str, object]:
            _limit_memory(setup.memory_bytes)
            return to_json(_guard(state, job, speak))

        _prepare(state, job)
        try:
            outcome = in_fork(port, job.timeout_s, trial, stop)
            if stop is not None and stop.asked and not isinstance(outcome, Died):
                outcome = _stopped(outcome, job.timeout_s)
        except ForkFailed as error:
            port.send(to_json(Unable(str(error))))
        else:
            port.send(to_json(outcome) if isinstance(outcome, Died) else outcome)


def _stopped(outcome: object, timeout_s: float) -> Died:
    """Return the death of a trial that was asked to stop, with what it answered."""
    reply = reply_of(outcome)
    doing = f": {reply.message}" if isinstance(reply, Failed) else ""
    how = f"the kernel ran longer than {timeout_s:g} s and was stopped{doing}"
    return Died(how, timed_out=True)


def _prepare(state: DeviceState, job: Job) -> None:
    """Load the inputs before forking, so that every trial finds them in memory."""
    first = job.runs[0] if isinstance(job, RaceJob) else job
    if isinstance(first, (CeilingJob, ReferenceJob)):  # what is done once need not be kept
        return
    with contextlib.suppress(AutotuneError, OSError, MemoryError):  # the trial will say why
        buffers = state.buffers(first.kernel.args, first.inputs)
        buffers.grow(rotation(buffers))
        if isinstance(job, RunJob) and job.check != "never":
            state.inspection(job)


def _serve_here(port: Port, state: DeviceState) -> None:
    def speak(event: str) -> None:
        """Nothing on this host disturbs what a GPU times, but other programs that use it do."""
        if is_of_lock(event):
            port.send({"event": event})

    while True:
        reply = _guard(state, port.receive(), speak)
        if isinstance(reply, Failed) and reply.error_no != MeasureErrorNo.WRONG_ANSWER:
            reply = replace(reply, leaving=not _healthy(state))
        port.send(to_json(reply))
        if isinstance(reply, Failed) and reply.leaving:
            os._exit(0)


def _healthy(state: DeviceState) -> bool:
    """Whether the context still works after a failure; most errors of the device poison it."""
    state.forget()
    try:
        empty((1,), "int8", state.device).numpy()
    except Exception:  # whatever it is, this process is of no more use
        return False
    return True


def _guard(state: DeviceState, job: Job, speak: Speak) -> Reply:
    try:
        return run_job(state, job, speak)
    except Exception as error:  # a process border: the parent turns it into a failed trial
        if type(error).__module__.startswith("pycuda"):
            return failure(f"{type(error).__name__}: {error}")
        return Failed(MeasureErrorNo.UNKNOWN_ERROR, error_text(error))


def _limit_memory(most_bytes: int) -> None:
    """Limit what this process may map; a limit that it is under already (`ulimit -v`) stays."""
    if not most_bytes:
        return
    limits = resource.getrlimit(resource.RLIMIT_AS)
    soft, hard = (most_bytes if at < 0 else min(at, most_bytes) for at in limits)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
