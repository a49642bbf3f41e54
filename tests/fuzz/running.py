"""Building and running many small kernels at little cost: one compiler call for a batch."""

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from autotune.emulator import compile_emulated
from autotune.errors import CompileError
from autotune.runtime.compile.toolchain import host_toolchain

WORKER = Path(__file__).with_name("worker.py")
# The worker itself ends batches by their CPU time; this is for one that sleeps.
RUN_TIMEOUT_S = 300
# Products that one emulated kernel adds; above, optimizing it costs less time than it saves.
MANY_PRODUCTS = 5_000_000


@dataclass(frozen=True)
class Job:
    """A kernel, its inputs, and the order of threads if it is emulated."""

    kernel: object
    inputs: list
    order: int


def compile_c(kernels, out):
    """Compile C kernels to one library; each is a file of its own."""
    files = []
    for kernel in kernels:
        path = out.with_name(f"{kernel.name}.c")
        path.write_text(kernel.source)
        files.append(path.name)
    toolchain = host_toolchain()
    # Those of autotune, as what a compiler makes of a text depends on them.
    flags = ["-O3", *toolchain.flags, "-shared", "-fPIC", "-Wno-psabi"]
    command = [*toolchain.command, *flags, *files, "-o", out.name, "-lm"]
    done = subprocess.run(command, cwd=out.parent, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(done.stderr)
    return out


def run_batch(jobs, folder, optimized=False):
    """Return for each job its outputs, or a message that says what went wrong.

    All kernels are of one language and have names of their own. Emulated ones of more than
    `MANY_PRODUCTS` take less time if they are optimized.
    """
    kernels = [job.kernel for job in jobs]
    library = Path(folder, f"{kernels[0].name}.so")
    try:
        if kernels[0].language == "cuda":
            compile_emulated(kernels, library, optimized=optimized)
        else:
            compile_c(kernels, library)
    except CompileError as error:
        if len(jobs) == 1:
            return [f"does not compile: {error}"]
        return [outcome for job in jobs for outcome in run_batch([job], folder, optimized)]
    outcomes = []
    while len(outcomes) < len(jobs):
        outcomes += _run_some(library, jobs[len(outcomes) :])
    return outcomes


def _run_some(library, jobs):
    """Run jobs until one crashes or hangs, which is then the last outcome."""
    outcomes, died = _worker().run([(library, job.kernel, job.inputs, job.order) for job in jobs])
    return outcomes if died is None else [*outcomes, died]


def _worker():
    """Returns the worker of this process, started on first use and after one was killed."""
    if not (_workers and _workers[-1].alive):
        _workers[:] = [_Worker()]
    return _workers[-1]


class _Worker:
    """A process that has imported what kernels need, and forks one for each batch.

    Importing takes longer than most batches run.
    """

    def __init__(self):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)], **pipes, start_new_session=True
        )
        self.alive = True
        atexit.register(self._stop)

    def run(self, jobs):
        """Returns the outcomes of jobs, and how their process died, or None."""
        self._errors.seek(0)  # the processes share the place where they write
        self._errors.truncate()
        timer = threading.Timer(RUN_TIMEOUT_S, self._kill)
        timer.start()
        outcomes = []
        try:
            pickle.dump(jobs, self._process.stdin)
            self._process.stdin.flush()
            while not isinstance(outcome := pickle.load(self._process.stdout), int):
                outcomes.append(outcome)
        except (EOFError, pickle.UnpicklingError, OSError):
            self._stop()
            return outcomes, f"did not end in {RUN_TIMEOUT_S} s"
        finally:
            timer.cancel()
        if outcome == 0:
            return outcomes, None
        self._errors.seek(0)
        return outcomes, f"crashed with status {outcome}: {self._errors.read()[-500:]!r}"

    def _stop(self):
        """Kills it, and what it forked."""
        atexit.unregister(self._stop)
        self._kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.alive = False

    def _kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


_workers: list[_Worker] = []
