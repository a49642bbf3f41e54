"""Random schedules of small workloads, run in Python and compared with numpy."""

import random

import numpy as np
import pytest
import random_schedules
import wild_schedules
import workloads
from interpreter import run

from autotune.errors import LoweringError
from autotune.lowering import lower_schedule


@pytest.mark.many_cases
@pytest.mark.parametrize("name", workloads.ALL)
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_random_schedules_compute_the_same(kind, name):
    for seed in range(12):
        rng = random.Random(f"{seed}{kind}{name}")
        work = workloads.ALL[name]()
        schedule = getattr(random_schedules, kind)(rng, work)
        lowered = lower_schedule(schedule, work.args)
        arrays = work.arrays(seed)
        run(lowered, arrays)
        wanted = work.reference(*arrays[:-1])
        np.testing.assert_allclose(arrays[-1], wanted, err_msg=f"{schedule}\n{lowered}")


@pytest.mark.parametrize("name", workloads.ALL)
def test_the_plain_schedule_computes_the_same(name):
    work = workloads.ALL[name]()
    schedule = random_schedules.te.create_schedule(work.output.op)
    lowered = lower_schedule(schedule, work.args)
    arrays = work.arrays()
    run(lowered, arrays)
    np.testing.assert_allclose(arrays[-1], work.reference(*arrays[:-1]))


# The only reasons for which such a schedule may be refused.
REFUSALS = ("reads it outside that loop", "must stand outside its serial reduction axes")


def lowered_or_reason(schedule, args, kind):
    try:
        return lower_schedule(schedule, args, target_kind=kind)
    except LoweringError as error:
        return str(error)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", workloads.ALL)
@pytest.mark.parametrize("kind", ["c", "cuda"])
def test_wild_schedules_compute_the_same_or_are_refused_in_words(kind, name):
    for seed in range(25):
        rng = random.Random(f"{seed}{kind}{name}")
        work = workloads.ALL[name]()
        schedule = wild_schedules.wild(rng, work, kind == "cuda")
        lowered = lowered_or_reason(schedule, work.args, kind)
        if isinstance(lowered, str):
            assert any(reason in lowered for reason in REFUSALS), f"{lowered}\n{schedule}"
            continue
        arrays = work.arrays(seed)
        run(lowered, arrays)
        wanted = work.reference(*arrays[:-1])
        np.testing.assert_allclose(arrays[-1], wanted, err_msg=f"{schedule}\n{lowered}")
