"""Programs that differ in numbers alone are looked at together, and nothing changes by that."""

import numpy as np
import pytest

from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.stack import StackedCostModel, stacks_of
from tests.auto_scheduler.graphs import conv2d_layer, matmul

PARAMS = SketchPolicy.DEFAULT_PARAMS
GRAPHS = {
    "product": matmul(64, 64, 1024),
    "turned": matmul(16, 96, 512),
    "convolution": conv2d_layer(1, 14, 14, 32, 256, 3, 3, (1, 1), (1, 1)),
    "steps": conv2d_layer(1, 14, 14, 24, 160, 3, 3, (2, 2), (1, 1)),
}


def programs(name, target="cuda -arch=sm_90"):
    task = SearchTask(compute_dag=ComputeDAG(GRAPHS[name]), target=target)
    return task, programs_of(task, sketches_of(task, PARAMS), PARAMS)


def several(name):
    """Return the cost models of a task and those of its stacks that have several programs."""
    _, models = programs(name)
    stacks = stacks_of(models, np.random.default_rng(3))
    found = [stack for stack in stacks if len(stack.members) > 1]
    assert found
    return models, found


def by_member(stack, rows):
    """Yield the number of each member with its rows, and where these stand."""
    for number, at in enumerate(stack.members):
        which = np.flatnonzero(rows[:, -1] == number)
        yield at, rows[which, :-1], which


@pytest.mark.parametrize("name", GRAPHS)
def test_estimates_of_a_stack_are_those_of_its_programs_to_the_bit(name):
    models, stacks = several(name)
    for stack in stacks:
        rows = stack.sampler.mutate(np.concatenate([stack.sampler.draw(600)] * 2))
        found = stack.cost_model(rows)
        for at, own, which in by_member(stack, rows):
            assert len(own)
            alone = models[at](own)
            assert (alone.feasible == found.feasible[which]).all()
            assert (alone.seconds == found.seconds[which]).all()
            assert (alone.features == found.features[which]).all()
            assert (stack.limits.feasible(rows)[which] == alone.feasible).all()


@pytest.mark.parametrize("name", GRAPHS)
def test_rows_of_a_stack_are_repaired_as_those_of_its_programs(name):
    models, stacks = several(name)
    for stack in stacks:
        rows = stack.sampler.mutate(stack.sampler.draw(600))
        found = stack.limits.repair(rows)
        assert (found != rows).any()
        for at, own, which in by_member(stack, rows):
            assert (found[which, :-1] == models[at].repair(own)).all()
            assert (found[which, -1] == rows[which, -1]).all()


@pytest.mark.parametrize("name", GRAPHS)
def test_what_a_stack_draws_and_breeds_is_a_row_of_the_program_that_it_names(name):
    models, stacks = several(name)
    for stack in stacks:
        rows = stack.sampler.draw(400)
        assert len(np.unique(rows[:, -1])) == len(stack.members)
        others = rows[np.random.default_rng(0).permutation(len(rows))]
        near = [stack.sampler.neighbours(row) for row in rows[:20]]
        for bred in (rows, stack.sampler.mutate(rows), stack.sampler.cross(rows, others), *near):
            for row in bred:
                at, own = stack.place(row)
                program = models[at].program
                assert program.row_of(program.candidate(own).transform_steps) == list(own)
                assert (stack.row_of(at, own) == row).all()


def test_every_program_is_in_one_stack_and_enumerated_ones_stand_alone():
    for name, target in (*((name, "cuda -arch=sm_90") for name in GRAPHS), ("product", "llvm")):
        _, models = programs(name, target)
        stacks = stacks_of(models, np.random.default_rng(0))
        assert sorted(at for stack in stacks for at in stack.members) == [*range(len(models))]
        assert (len(stacks) < len(models)) == target.startswith("cuda")
    small = SearchTask(compute_dag=ComputeDAG(matmul(4, 4, 256)), target="cuda -arch=sm_90")
    for stack in stacks_of(
        programs_of(small, sketches_of(small, PARAMS), PARAMS), np.random.default_rng(0)
    ):
        assert isinstance(stack.cost_model, StackedCostModel) == (len(stack.members) > 1)


def test_a_cross_has_of_another_program_what_both_allow():
    _, (stack, *_) = several("product")
    rows = stack.sampler.draw(400)
    others = rows[::-1]
    children = stack.sampler.cross(rows, others)
    assert (children[:, -1] == rows[:, -1]).all()
    mixed = (children != rows).any(axis=1) & (rows[:, -1] != others[:, -1])
    assert mixed.any()
    for stands, child, other in zip(rows, children, others, strict=True):
        taken = child != stands
        assert (child[taken] == other[taken]).all()
