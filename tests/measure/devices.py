"""Several devices without one: each takes as long for a kernel as its artifact says."""

from concurrent.futures import Future
from pathlib import Path

import numpy as np

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import Builder, BuildResult, LocalBuilder, LocalRunner
from autotune.measure.build.realise import realise
from autotune.measure.process.worker import StartFailed
from autotune.measure.run.jobs import RaceJob
from autotune.measure.run.replies import Raced, Ran
from autotune.runtime import summarize
from autotune.runtime.timing import Clocks
from tests.trials import inputs_of

CLOCKS = Clocks(sm_mhz=1500, memory_mhz=2600, temperature_c=40, slowed_by=())


@at.template("measure_test.stated")
def stated(knobs):
    cfg = at.get_config()
    cfg.define_knob("knob", list(range(knobs)))
    return SourceKernel(
        "stated",
        'extern "C" __global__ void stated(float *y) { y[0] = 1.0f + 0.0f * KNOB; }',
        defines={"KNOB": cfg["knob"].val},
        grid=1,
        block=1,
        args=[arg("y", (1,), role="out")],
        reference=lambda: np.ones(1, "float32"),
    )


class StatedBuilder(LocalBuilder):
    """Compiles nothing: an artifact says how many seconds its kernel takes on each device.

    Args:
        folder: of the artifacts.
        seconds: for each configuration, the seconds on each device.
    """

    def __init__(self, folder, seconds):
        super().__init__(timeout=1, n_parallel=1)
        self.folder = folder
        self.seconds = seconds

    def set_task(self, task, build_kwargs=None):
        Builder.set_task(self, task, build_kwargs)

    def submit(self, measure_input):
        future = Future()
        future.set_result(self.one(measure_input))
        return future

    def one(self, inp):
        path = Path(self.folder, f"{inp.config.index}.cubin")
        path.write_text(" ".join(map(str, self.seconds[inp.config.index])))
        return BuildResult(artifact=str(path), kernel=realise(inp).kernel)


class StatedDeviceProcess:
    """Takes as long as artifacts say, without waiting for it.

    Attributes:
        made: the processes that were made, in order.
        lost: devices that cannot be started.
    """

    made: list
    lost: set

    def __init__(self, setup, gate, folder):
        self.device = setup.device
        self.pid = None
        self.busy_s = 0.0
        self.waited_s = self.queued_s = 0.0
        self.device_class = f"card {self.device} (sm_0)"
        self.jobs = []
        self.made.append(self)

    @staticmethod
    def require(setup):
        pass

    def start(self):
        if self.device in self.lost:
            raise StartFailed(f"cuda:{self.device} fell off the bus")

    def run(self, job):
        self.start()
        self.jobs.append(job)
        if isinstance(job, RaceJob):
            return Raced(tuple(self.timing(r, job.rounds) for r in job.runs))
        timing = self.timing(job, 3)
        new_best = job.best_s is None or timing.median < job.best_s
        checked = job.check == "always" or (job.check == "best" and new_best)
        return Ran(timing, checked)

    def timing(self, job, samples):
        seconds = float(Path(job.artifact).read_text().split()[self.device])
        return summarize([seconds] * samples, 1, [CLOCKS] * samples)

    def end(self):
        pass

    def close(self):
        pass


class StatedRunner(LocalRunner):
    """Has `StatedDeviceProcess` for devices; they are this one's own.

    Args:
        devices: how many.
        kind: their class.
    """

    def __init__(self, devices, kind=StatedDeviceProcess, **options):
        super().__init__(devices=range(devices), cooldown_interval=0, **options)
        self.device_process = type("OwnDeviceProcess", (kind,), {"made": [], "lost": set()})


def stated_inputs(knobs):
    task = at.create("measure_test.stated", (knobs,), target="cuda -arch=sm_90")
    return inputs_of(task, range(knobs))


def ready(folder, seconds, runner):
    """Return inputs and what they were built to, the runner being ready for them."""
    inputs = stated_inputs(len(seconds))
    runner.set_task(inputs[0].task)
    return inputs, StatedBuilder(folder, seconds).build(inputs)
