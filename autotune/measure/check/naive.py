"""Expected outputs of a tensor expression and their error bounds, by naive loops in C."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from autotune.errors import AutotuneError, CompilerCrashed, MeasureError
from autotune.kernel.kernel import Kernel
from autotune.measure.check.bounded_loops import BoundedKernel, bounded_kernel, outputs_among
from autotune.measure.check.expected import Expected, expected
from autotune.measure.process.blame import Attempts, OutOfMemoryWatch, means_disk_full
from autotune.measure.process.scratch import Scratch
from autotune.measure.process.worker import WorkerEnded
from autotune.measure.run.device_process import LocalDeviceProcess
from autotune.measure.run.jobs import ReferenceJob, WorkerSetup
from autotune.measure.run.replies import Computed, Reply, why_not
from autotune.measure.run.value_files import Array, read_values
from autotune.runtime.compile.compile_kernel import BuildOutput, compile_kernel
from autotune.target import Target
from autotune.te import Tensor

_TIMEOUT_S = 120.0


class PlainLoops:
    """The process in which plain loops run: started when it is needed, and kept for the next.

    Each computation has a fork of it, so nothing of one is left for the next.
    """

    def __init__(self) -> None:
        self._at_work = threading.Lock()
        self._making = threading.Lock()
        self._scratch = Scratch("loops")
        self._process: LocalDeviceProcess | None = None
        self._over = False

    def run(self, job: ReferenceJob) -> Reply:
        """Do one job; others wait.

        Raises:
            StartFailed: no process could be started.
            WorkerEnded: `end` was called.
        """
        with self._at_work:
            return self._owner().run(job)

    def _owner(self) -> LocalDeviceProcess:
        with self._making:
            if self._over:
                raise WorkerEnded("the process of the references was ended")
            if self._process is None:
                setup = WorkerSetup("c", 0, isolated=True)
                self._process = LocalDeviceProcess(setup, None, str(self._scratch.path))
            return self._process

    def end(self) -> None:
        """Kill the process for good, from any thread."""
        with self._making:
            self._over = True
            process, self._process = self._process, None
        if process is not None:
            process.end()
            with self._at_work:
                process.close()
        self._scratch.end()


def naive_outputs(
    tensors: Sequence[Tensor],
    inputs: Sequence[str],
    folder: Path,
    sums: str | None = None,
    loops: PlainLoops | None = None,
) -> list[Expected]:
    """Compute the outputs among ``tensors`` in another process.

    Args:
        tensors: what the template returned besides the schedule: the arguments, in order.
        inputs: files with the values of the arguments that are read.
        folder: for temporary files.
        sums: dtype in which kernels keep their sums; by default that of the expression.
        loops: owns that process; by default one for this call alone.

    Raises:
        MeasureError: they cannot be computed; the message says why.
    """
    outputs = outputs_among(tensors)
    reference = bounded_kernel(tensors, sums)
    with ExitStack() as own:
        if loops is None:
            loops = PlainLoops()
            own.callback(loops.end)
        values = _run(reference, inputs, folder, loops)
    made = []
    for tensor, (value, bound) in zip(outputs, reference.outputs, strict=True):
        error = None if bound is None else values[bound]
        made.append(expected(values[value], error, tensor.dtype))
    return made


def _run(
    reference: BoundedKernel,
    inputs: Sequence[str],
    folder: Path,
    loops: PlainLoops,
) -> list[Array]:
    kernel = reference.kernel
    folder = folder / "reference"
    try:
        built, given = _prepare(kernel, inputs, folder)
    except (AutotuneError, OSError) as error:
        raise MeasureError(f"the plain loops cannot be built: {error}") from error
    outputs = tuple(str(folder / f"{a.name}.npy") for a in kernel.outputs)
    job = ReferenceJob(built.artifact, kernel, _TIMEOUT_S, given, outputs)
    reply = loops.run(job)
    if not isinstance(reply, Computed):
        raise MeasureError(f"the plain loops failed: {why_not(reply)}")
    return [read_values(path, a.dtype) for path, a in zip(outputs, kernel.outputs, strict=True)]


def _prepare(
    kernel: Kernel, inputs: Sequence[str], folder: Path
) -> tuple[BuildOutput, tuple[str, ...]]:
    """Compile, and write the inputs as the loops read them.

    What was killed, or found no memory, is done again as for trials, see
    `autotune.measure.process.blame`.
    """
    attempts = Attempts(OutOfMemoryWatch())
    while True:
        try:
            built = compile_kernel(kernel, Target("c"), timeout_s=_TIMEOUT_S, out_dir=folder)
            pairs = zip(inputs, kernel.inputs, strict=True)
            return built, tuple(_widen(p, a.dtype, folder / f"{a.name}.npy") for p, a in pairs)
        except (CompilerCrashed, OSError) as error:
            if _is_final(attempts, error):
                raise MeasureError(attempts.verdict(str(error))) from error
            time.sleep(attempts.pause_s)


def _is_final(attempts: Attempts, error: CompilerCrashed | OSError) -> bool:
    """Record a crash or a lack; return whether to try no more."""
    if isinstance(error, OSError) or means_disk_full(str(error)):
        return attempts.record_shortage()
    return attempts.record_kill() if error.killed else attempts.record_crash()


def _widen(path: str, dtype: str, place: Path) -> str:
    """Return a file with the same values in the dtype that the loops read."""
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    if values.dtype.kind == "V":
        values = read_values(path, "bfloat16")
    if values.dtype == np.dtype(dtype):
        return path
    np.save(place, values.astype(dtype), allow_pickle=False)
    return str(place)
