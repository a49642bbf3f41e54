"""Random states of the auto-scheduler: a sketch of a workload, and a row of its numbers."""

import random

import numpy as np

from autotune.auto_scheduler import (
    ComputeDAG,
    HardwareParams,
    LayoutRewriteOption,
    SearchTask,
    SketchPolicy,
)
from autotune.auto_scheduler.search.analytical.products import ProductCostModel
from autotune.auto_scheduler.search.analytical.several import SeveralCostModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.codegen import kernel_of_schedule
from autotune.errors import InstantiationError, LoweringError, ScheduleError
from autotune.kernel.layout import with_layouts
from tests.fuzz.check import COMPUTATIONS, Trial
from tests.fuzz.operators import OPERATORS
from tests.fuzz.products import PRODUCTS
from tests.fuzz.rare import RARE

ALL_COMPUTATIONS = {**COMPUTATIONS, **OPERATORS, **RARE}
TARGETS = {"c": "llvm", "cuda": "cuda -arch=sm_90"}
# States of one workload that one seed draws.
STATES = 4


def draw_states(seed, count=STATES):
    """Draw some states of one workload for one target, and print their kernels."""
    rng = random.Random(f"state {seed}")
    name, language = rng.choice(list(ALL_COMPUTATIONS)), rng.choice(list(TARGETS))
    return _draw(seed, rng, name, language, ALL_COMPUTATIONS[name](rng), count)


def draw_products(seed, count=STATES):
    """Draw some states in which tensor cores multiply, and print their kernels."""
    rng = random.Random(f"product {seed}")
    name = rng.choice(list(PRODUCTS))
    return _draw(
        seed, rng, name, "cuda", PRODUCTS[name](rng), count, (ProductCostModel, SeveralCostModel)
    )


def _draw(seed, rng, name, language, workload, count, kind=object):
    """Draw states of programs of some kind, and print their kernels."""
    target = TARGETS[language]
    option = rng.choice(list(LayoutRewriteOption)) if language == "c" else None
    task = SearchTask(
        compute_dag=ComputeDAG(workload.args),
        target=target,
        hardware_params=HardwareParams(num_cores=4, target=target),
        layout_rewrite_option=option,
    )
    params = SketchPolicy.DEFAULT_PARAMS
    try:
        programs = programs_of(task, sketches_of(task, params), params)
        found = [
            (each.program, row)
            for each in programs
            if isinstance(each, kind)
            for row in RowSampler(each.program, each.limits(), np.random.default_rng(seed)).draw(2)
        ]
    except Exception as error:  # nothing a rule or a sampler meets may raise
        failure = f"{type(error).__name__}: {error}"
        return [Trial(seed, name, language, workload, failure=failure)]
    chosen = rng.sample(found, min(count, len(found)))
    return [
        _trial(seed, i, name, language, workload, task, program.candidate(row))
        for i, (program, row) in enumerate(chosen)
    ]


def _trial(seed, i, name, language, workload, task, candidate):
    trial = Trial(seed, f"{name}, state {i}", language, workload)
    try:
        made = task.realise(candidate)
        trial.schedule, tensors = made.what
        label = f"{name}_state_{seed}_{i}"
        kernel = kernel_of_schedule(trial.schedule, tensors, task.target, label)
        trial.kernel = with_layouts(kernel, made.layouts)
    except (ScheduleError, LoweringError, InstantiationError) as error:
        trial.refusal = f"{type(error).__name__}: {error}\n{candidate}"
    except Exception as error:  # anything else is a fault of ours, to be reported with the steps
        trial.failure = f"{type(error).__name__}: {error}\n{candidate}"
    return trial
