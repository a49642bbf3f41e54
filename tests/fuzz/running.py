"""Building and running many small kernels at little cost: one compiler call for a batch."""

import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from autotune.emulator import compile_emulated
from autotune.errors import CompileError

WORKER = Path(__file__).with_name("worker.py")
RUN_TIMEOUT_S = 60


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
    flags = ["-std=gnu11", "-O1", "-fopenmp", "-shared", "-fPIC", "-Wno-psabi"]
    command = ["gcc", *flags, *files, "-o", out.name, "-lm"]
    done = subprocess.run(command, cwd=out.parent, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(done.stderr)
    return out


def run_batch(jobs, folder):
    """Return for each job its outputs, or a message that says what went wrong.

    All kernels are of one language and have names of their own.
    """
    kernels = [job.kernel for job in jobs]
    library = Path(folder, f"{kernels[0].name}.so")
    compiler = compile_emulated if kernels[0].language == "cuda" else compile_c
    try:
        compiler(kernels, library)
    except CompileError as error:
        if len(jobs) == 1:
            return [f"does not compile: {error}"]
        return [outcome for job in jobs for outcome in run_batch([job], folder)]
    outcomes = []
    while len(outcomes) < len(jobs):
        outcomes += _run_some(library, jobs[len(outcomes) :])
    return outcomes


def _run_some(library, jobs):
    """Run jobs until one crashes or hangs, which is then the last outcome."""
    text = pickle.dumps([(library, job.kernel, job.inputs, job.order) for job in jobs])
    died = "crashed"
    try:
        done = subprocess.run(
            [sys.executable, str(WORKER)], input=text, capture_output=True, timeout=RUN_TIMEOUT_S
        )
        data, died = done.stdout, f"crashed with status {done.returncode}: {done.stderr[-500:]!r}"
    except subprocess.TimeoutExpired as error:
        data, died = error.stdout or b"", f"did not end in {RUN_TIMEOUT_S} s"
    outcomes = []
    while data:
        try:
            outcomes.append(pickle.loads(data))
        except (pickle.UnpicklingError, EOFError):
            break
        data = data[len(pickle.dumps(outcomes[-1])) :]
    return outcomes if len(outcomes) == len(jobs) else [*outcomes, died]
