"""Random schedules compute on a device what numpy does, and what the emulator says of them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autotune.driver import build
from tests.fuzz.check import draw

SEEDS = range(120)
DEVICE = "cuda"


def built(trial):
    return build(trial.schedule, trial.workload.args, target=DEVICE, name=trial.kernel.name)


@pytest.mark.gpu
def test_random_schedules_compute_what_numpy_does_on_a_device():
    trials = [trial for trial in map(draw, SEEDS) if trial.language == "cuda" and trial.kernel]
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(built, trials))
    wrong = []
    for trial, module in zip(trials, modules, strict=True):
        inputs = trial.workload.arrays(trial.seed)
        outputs = [np.zeros(a.shape, a.dtype) for a in trial.kernel.outputs]
        module(*inputs, *outputs)
        expected = trial.workload.reference(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        tolerance = max(trial.workload.tolerance, 1e-4)
        for got, want in zip(outputs, expected, strict=True):
            if not np.allclose(got.astype("f8"), want, rtol=tolerance, atol=tolerance):
                wrong.append(trial.report())
                break
    assert not wrong, "\n\n".join([f"{len(wrong)} of {len(trials)} are wrong", *wrong[:3]])
