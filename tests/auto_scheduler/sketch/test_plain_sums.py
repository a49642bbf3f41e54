"""Long sums of few results, whose terms are read once, are added up in parts by many blocks."""

import numpy as np
import pytest

from autotune import te
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.auto_scheduler.transform_steps import RfactorStep
from benchmarks.auto_scheduler.case import of
from benchmarks.auto_scheduler.cases import batch_norm, sum_of
from tests.auto_scheduler.running import assert_states_compute_the_same

PARAMS = SketchPolicy.DEFAULT_PARAMS


def columns_then_root(x):
    sums = sum_of(0)(x)
    return te.compute(sums.shape, lambda j: te.sqrt(te.abs(sums[j])), "root")


def from_a_first_value(x):
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0],), lambda i: te.sum(x[i, k], axis=k, init=5.0), "sums")


WORKLOADS = {
    "all of an array": (of(sum_of(0, 1), (512, 300)), 1),
    "rows": (of(sum_of(1), (4, 40000)), 1),
    "rows from a first value": (of(from_a_first_value, (4, 40000)), 1),
    "columns": (of(sum_of(0), (1024, 300)), 1),
    "few columns": (of(sum_of(0), (40000, 4)), 1),
    "columns, then a root": (of(columns_then_root, (1024, 256)), 1),
    "two of each channel": (of(batch_norm, (4, 16, 64, 64)), 2),
}


def programs(tensors):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target="cuda -arch=sm_90")
    return task, programs_of(task, sketches_of(task, PARAMS), PARAMS)


def splits(model):
    return sum(isinstance(step, RfactorStep) for step in model.program.state.transform_steps)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", WORKLOADS)
def test_parts_add_up_to_the_whole(name, tmp_path):
    tensors, most = WORKLOADS[name]
    task, found = programs(tensors)
    rng, dag = np.random.default_rng(0), task.compute_dag.init_state.dag
    parted = [each for each in found if splits(each) == most]
    states = [
        plain_state(dag).after(model.program.candidate(row).transform_steps)
        for model in (parted[0], parted[-1])
        for row in RowSampler(model.program, model.limits(), rng).draw(1)
    ]
    assert len(states) == 2
    # Sums of 100,000 terms differ by their order.
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path, 1e-4, 3e-3)


@pytest.mark.parametrize("shape", [(2048, 2048), (1 << 22, 1)])
def test_the_sum_of_an_array_is_estimated_to_be_faster_in_parts(shape):
    _, found = programs(of(sum_of(0, 1), shape))
    seconds = {each.numbers.extra_seconds: splits(each) for each in found}
    assert seconds[min(seconds)] == 1
    assert seconds[max(seconds)] == 0


def test_threads_that_share_the_sum_of_a_column_are_estimated_to_read_far_more():
    _, found = programs(of(sum_of(0), (8192, 4096)))
    best = min(each.numbers.extra_seconds for each in found if splits(each))
    assert all(each.numbers.extra_seconds > 4 * best for each in found if not splits(each))


@pytest.mark.parametrize(
    ("shape", "over"),
    [((4096, 1024), 1), ((64, 4096), 1), ((100003, 2), 0), ((512, 65537), 0)],
    ids=["many rows", "short rows", "a prime length", "many columns"],
)
def test_sums_that_parts_do_not_help_are_left_whole(shape, over):
    assert not any(splits(each) for each in programs(of(sum_of(over), shape))[1])


def test_a_cpu_adds_up_as_before():
    task = SearchTask(compute_dag=ComputeDAG(of(sum_of(0), (1024, 300))), target="llvm")
    parts = [
        step.lengths
        for model in programs_of(task, sketches_of(task, PARAMS), PARAMS)
        for step, after in zip(
            model.program.state.transform_steps,
            model.program.state.transform_steps[1:],
            strict=False,
        )
        if isinstance(after, RfactorStep)
    ]
    assert (512,) in parts


def test_parts_of_sums_read_no_copies_of_their_own():
    def weighed(x):
        shift = sum_of(1)(x)
        value = te.compute(x.shape, lambda n, c, i: te.exp(x[n, c, i] - shift[n, i]), "value")
        return sum_of(1)(value)

    _, found = programs(of(weighed, (8, 512, 196)))
    parted = [each.program.state for each in found if splits(each) == 2]
    assert parted
    assert not any(stage.name.endswith(".shared") for state in parted for stage in state.stages)
