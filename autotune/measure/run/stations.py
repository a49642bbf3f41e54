"""One device each: a thread that hands run jobs to the process that owns the device."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from autotune.measure.process.blame import Case, Memory, killed_from_outside
from autotune.measure.process.worker import StartFailed, Worker
from autotune.measure.run.gate import HostGate
from autotune.measure.run.jobs import Greeting, Job
from autotune.measure.run.worker import QUIET_NUMPY
from autotune.measure.types import MeasureErrorNo
from autotune.runtime import device
from autotune.runtime.arrays.memory import memory_of
from autotune.target import Target
from autotune.utils.children import ChildDied, ChildTimeout

_MODULE = "autotune.measure.run.worker"
# Kernels come ready-made; what makes them need not be imported.
_BARE = ("autotune.measure", "autotune.codegen")
# A forked trial is killed by its worker; the worker is killed when it does not manage that.
_GRACE_S = 3.0


class Station:
    """The process that owns one device, replaced whenever it dies. Used by one thread.

    Attributes:
        busy_s: seconds that the device was at work so far.

    Args:
        greeting: where the process runs its trials.
        gate: what is timed on this host is timed inside ``gate.quiet()``.
        folder: for the process's own temporary files: it may be killed over them.
    """

    def __init__(self, greeting: Greeting, gate: HostGate | None, folder: str) -> None:
        self.device = greeting.device
        self.busy_s = 0.0
        self._isolated = greeting.isolated
        self._gate = gate
        self._memory = Memory()
        changed = {**dict.fromkeys(QUIET_NUMPY, "1"), "TMPDIR": folder}
        restored = tuple((name, os.environ.get(name)) for name in changed)
        greeting = replace(greeting, restored=restored)
        self.worker = Worker(_MODULE, greeting, environment=changed, bare=_BARE)

    @staticmethod
    def require(greeting: Greeting) -> None:
        """Look whether there is such a device at all, before anything is built for it.

        Raises:
            DeviceError: there is none, or nothing to use it with.
        """
        memory_of(device(Target(greeting.target), greeting.device))

    @property
    def pid(self) -> int | None:
        """Process id of the process, if there is one now."""
        return self.worker.pid

    def start(self) -> None:
        """Start the process if none is there; see `Worker.start`."""
        self.worker.start()

    def end(self) -> None:
        """Kill the process for good. From any thread."""
        self.worker.end()

    def close(self) -> None:
        """Kill the process; the next job starts another."""
        self.worker.close()

    def run(self, job: Job) -> dict[str, Any]:
        """Do a job; whatever happens to the process becomes part of the reply.

        A job whose process somebody else may have ended is done again, see
        `autotune.measure.process.blame`.

        Raises:
            StartFailed: no process could be started, or none could be forked for the job.
            WorkerEnded: `end` was called.
        """
        case = Case(self._memory)
        while True:
            started = time.perf_counter()
            reply = self._attempt(job)
            # What loads, compares and fails leaves a device cool; a race is timing throughout.
            timed = reply.get("phases", {}).get("time")
            self.busy_s += time.perf_counter() - started if timed is None else timed
            if "unable" in reply:
                if case.lacked():
                    raise StartFailed(f"{reply['unable']} ({case.tries} attempts)")
            elif not reply.pop("blameless"):
                return reply
            elif case.killed():
                return {**reply, "message": case.verdict(reply["message"])}
            self.worker.rest(case.pause_s)

    def _attempt(self, job: Job) -> dict[str, Any]:
        grace_s = _GRACE_S if self._isolated else 0.0
        with ExitStack() as quiet:
            try:
                reply = self.worker.ask(
                    job, job.timeout_s + grace_s, lambda event: self._on_event(event, quiet)
                )
            except ChildTimeout:
                return {
                    "error_no": int(MeasureErrorNo.RUN_TIMEOUT),
                    "message": f"ran longer than {job.timeout_s:g} s and was killed",
                    "blameless": False,
                }
            except ChildDied as error:
                return {
                    "error_no": int(MeasureErrorNo.RUNTIME_DEVICE),
                    "message": f"the process that runs kernels died: {error}",
                    "blameless": self._blameless(error),
                }
        if reply.get("leaving"):
            self.worker.close()
        if "unable" in reply:
            return reply
        return {**self._with_output(reply), "blameless": bool(reply.get("killed"))}

    def _blameless(self, death: ChildDied) -> bool:
        """Whether something else than the job may have ended the process.

        A process that forks its trials does not die of them; one that runs them itself may have
        been left ready to fall over by an earlier one. A fresh process decides.
        """
        return self._isolated or self.worker.answered > 0 or killed_from_outside(death.exit_code)

    def _on_event(self, event: dict[str, Any], quiet: ExitStack) -> None:
        if event["event"] == "quiet":
            if self._gate is not None:
                quiet.enter_context(self._gate.quiet())
            self.worker.tell("go")
        else:
            quiet.close()

    def _with_output(self, reply: dict[str, Any]) -> dict[str, Any]:
        """Add what a failed kernel printed last: the C library's own words, or the kernel's."""
        output = self.worker.take_output()
        if reply["error_no"] and output:
            reply["message"] = f"{reply['message']}\nit printed: {output}"
        return reply


class Rest:
    """Pauses between trials, cut short when the runner is closed."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._ended = threading.Event()

    def after(self, busy_s: float) -> None:
        """Let the device cool: for the interval, but never longer than it was busy."""
        if self._interval_s > 0:
            self._ended.wait(min(self._interval_s, busy_s))

    def end(self) -> None:
        """Rest no more."""
        self._ended.set()
