"""From a seed to a verdict."""

import random
from dataclasses import dataclass, field

import numpy as np

from autotune.codegen import kernel_of_schedule
from autotune.errors import LoweringError, ScheduleError
from autotune.kernel.layout import laid_out
from autotune.target import Target
from tests.fuzz.drawing import Drawing
from tests.fuzz.guarded import GUARDED
from tests.fuzz.running import Job, run_batch
from tests.fuzz.workloads import WORKLOADS

COMPUTATIONS = {**WORKLOADS, **GUARDED}


@dataclass
class Trial:
    """One seed: a workload, a schedule, a kernel, and what became of it.

    ``refusal`` is why no kernel was made, ``failure`` what is wrong with the kernel that was.
    """

    seed: int
    name: str = ""
    language: str = ""
    workload: object = None
    schedule: object = None
    kernel: object = None
    refusal: str = ""
    failure: str = ""
    inputs: list = field(default_factory=list)

    def report(self):
        """Return what somebody needs to see the failure again."""
        steps = self.schedule.steps if self.schedule is not None else ()
        lines = [f"seed {self.seed}: {self.name} for {self.language}: {self.failure}"]
        lines += [f"  {step}" for step in steps]
        lines.append(f"again: pytest tests/fuzz --schedules 1 --first-seed {self.seed}")
        if self.kernel is not None:
            lines.append(self.kernel.source)
        return "\n".join(lines)


def draw(seed, computations=COMPUTATIONS, languages=("c", "cuda")):
    """Draw the schedule of a seed and print its kernel."""
    rng = random.Random(seed)
    name = rng.choice(list(computations))
    language = rng.choice(languages)
    trial = Trial(seed, name, language)
    trial.workload = computations[name](rng)
    drawing = Drawing(rng, trial.workload, language == "cuda")
    trial.schedule = drawing.schedule
    try:
        drawing.draw()
        args = trial.workload.args
        trial.kernel = kernel_of_schedule(trial.schedule, args, Target(language), f"{name}_{seed}")
    except (ScheduleError, LoweringError) as error:
        trial.refusal = f"{type(error).__name__}: {error}"
    except Exception as error:  # anything else is a fault of ours, to be reported with the steps
        trial.failure = f"{type(error).__name__}: {error}"
    return trial


def run(trials, folder):
    """Run the kernels of some trials, of one language, and note which are wrong."""
    for trial in trials:
        trial.inputs = trial.workload.arrays(trial.seed)
    jobs = [
        Job(trial.kernel, laid_out(trial.kernel.inputs, trial.inputs), trial.seed % 7)
        for trial in trials
    ]
    for trial, outcome in zip(trials, run_batch(jobs, folder), strict=True):
        trial.failure = outcome if isinstance(outcome, str) else _difference(trial, outcome)


def _difference(trial, outputs):
    expected = trial.workload.reference(*trial.inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    tolerance = trial.workload.tolerance
    for argument, got, want in zip(trial.kernel.outputs, outputs, expected, strict=True):
        a, b = got.astype("f8"), np.asarray(want).astype("f8")
        wrong = ~np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        if wrong.any():
            return (
                f"{argument.name} is wrong in {int(wrong.sum())} of {wrong.size} places, first at "
                f"{np.argwhere(wrong)[0].tolist()}: {a[wrong][0]} for {b[wrong][0]}"
            )
    return ""
