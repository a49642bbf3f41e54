"""Programs, rows and estimates: what a search does without lowering anything."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import te, topi
from autotune.auto_scheduler import (
    ComputeDAG,
    MeasureInput,
    PythonBasedModel,
    SearchTask,
    SketchPolicy,
    XGBModel,
)
from autotune.auto_scheduler.search.analytical.gpu_stage import StageEstimate
from autotune.auto_scheduler.search.effort import Effort
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.proposer import Proposer
from autotune.auto_scheduler.search.space.factors import factorings, primes
from autotune.auto_scheduler.search.space.program import ChoiceSlot, FactorSlot
from autotune.auto_scheduler.search.space.sampler import RowSampler, distinct
from autotune.driver import kernel_of
from autotune.errors import RecordError
from autotune.kernel import launch_violation
from autotune.measure import MeasureResult
from autotune.utils.math import divisors
from tests.auto_scheduler.graphs import conv2d_layer, matmul, tutorial_layer

SMALL = Effort(population=256, generations=1, survivors=64)
PARAMS = SketchPolicy.DEFAULT_PARAMS


def of(operator, *shapes):
    inputs = [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    return [*inputs, operator(*inputs)]


GRAPHS = {
    "tutorial": tutorial_layer(),
    "matmul": matmul(96, 64, 128),
    "strided": conv2d_layer(2, 15, 15, 8, 4, 3, 3, (2, 2), (1, 1)),
    "batched": of(lambda a, b: topi.nn.batch_matmul(a, b), (4, 24, 32), (4, 48, 32)),
    "depthwise": of(
        lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, 1, 1), (1, 16, 14, 14), (16, 1, 3, 3)
    ),
}


def models(name, target="cuda -arch=sm_90"):
    task = SearchTask(compute_dag=ComputeDAG(GRAPHS[name]), target=target)
    return task, programs_of(task, sketches_of(task, PARAMS), PARAMS)


@given(st.integers(1, 720), st.integers(1, 4), st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_factorings_are_all_ways_to_divide_an_extent(extent, parts, innermost):
    rows = factorings(extent, parts, innermost)
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert (extent % rows.prod(axis=1) == 0).all()
    assert (rows[:, -1] <= innermost).all()
    expected = sum(
        count_ways(extent // last, parts - 1) for last in divisors(extent) if last <= innermost
    )
    assert len(rows) == expected


def count_ways(extent, parts):
    return 1 if parts == 0 else sum(count_ways(extent // d, parts - 1) for d in divisors(extent))


@given(st.integers(1, 10_000))
def test_primes_multiply_to_their_number(number):
    assert math.prod(primes(number)) == number


@pytest.mark.parametrize("name", GRAPHS)
def test_closed_forms_say_what_lowering_finds(name):
    task, found = models(name)
    rng = np.random.default_rng(0)
    for each in found[:3]:
        rows = RowSampler(each.program, each.limits(), rng).draw(4)
        for i, row in enumerate(rows):
            kernel = kernel_of(task.realise(each.program.candidate(row)).what, task.target)
            assert launch_violation(kernel, task.target.limits) is None
            for tiled, call in zip(each.tiled, kernel.calls, strict=False):
                stage = StageEstimate(tiled, rows, each.device)
                assert math.prod(call.launch.block) == stage.shape.threads[i]
                assert math.prod(call.launch.grid) == stage.shape.blocks[i]
                assert shared_bytes(kernel.source, call) == stage.shared_bytes[i]


def shared_bytes(source, call):
    """Return the bytes of shared memory that the text of a kernel declares."""
    body = source[source.index(f"{call.entry}(") :]
    body = body[: body.find("__global__", 1) if "__global__" in body[1:] else len(body)]
    declared = re.findall(r"__shared__[^;]* float \w+\[(\d+)\];", body)
    return 4 * sum(map(int, declared)) or call.launch.shared_bytes


def test_what_is_infeasible_is_never_drawn():
    _, found = models("tutorial")
    rng = np.random.default_rng(1)
    for each in found:
        sampler = RowSampler(each.program, each.limits(), rng)
        rows = sampler.draw(64)
        assert each(rows).feasible.all()
        assert np.isfinite(each(rows).seconds).all()
        for changed in (sampler.mutate(rows), sampler.cross(rows, rows[::-1])):
            assert each(sampler.kept(changed)).feasible.all()
            assert is_row(each.program, changed)
        assert is_row(each.program, sampler.neighbours(rows[0]))


def is_row(program, rows):
    for slot in program.slots:
        values = rows[:, program.columns[slot.step]]
        match slot:
            case FactorSlot(extent=extent, innermost=innermost):
                if (extent % values.prod(axis=1)).any() or (values[:, -1] > innermost).any():
                    return False
            case ChoiceSlot(values=choices):
                if not np.isin(values, choices).all():
                    return False
    return True


def test_a_small_program_is_enumerated():
    task = SearchTask(compute_dag=ComputeDAG(of(topi.nn.relu, (64, 32))), target="cuda")
    (each,) = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    sampler = RowSampler(each.program, each.limits(), np.random.default_rng(0))
    assert len(sampler.draw(1000)) == each.program.size == 6


def test_a_row_and_its_steps_are_the_same_candidate():
    _, found = models("tutorial")
    rng = np.random.default_rng(2)
    for each in found:
        for row in RowSampler(each.program, each.limits(), rng).draw(3):
            steps = each.program.candidate(row).transform_steps
            assert each.program.row_of(steps) == list(row)
            others = [other for other in found if other is not each]
            assert all(other.program.row_of(steps) is None for other in others)


def test_proposals_follow_from_the_seed_and_none_comes_twice():
    def run():
        proposer = Proposer(models("matmul")[1], np.random.default_rng(5), SMALL)
        first = proposer.propose(8)
        proposer.learn([(each.transform_steps, 1e-5 * (i + 1)) for i, each in enumerate(first)])
        return [each.key for each in (*first, *proposer.propose(8))]

    keys = run()
    assert keys == run()
    assert len(set(keys)) == 16


def test_a_search_finds_a_time_that_only_measurements_show():
    # The estimate knows nothing of this: it depends on the width of copies alone.
    _, found = models("matmul")
    proposer = Proposer(found, np.random.default_rng(3), SMALL)

    def seconds(steps):
        rows = [(each, each.program.row_of(steps)) for each in found]
        each, row = next((one, row) for one, row in rows if row is not None)
        columns = [one.vector for tiled in each.tiled for one in tiled.inputs]
        wide = sum(1 if column is None else row[column] for column in columns)
        return 1e-3 / 2.0**wide

    for _ in range(6):
        batch = [each.transform_steps for each in proposer.propose(12)]
        proposer.learn([(steps, seconds(steps)) for steps in batch])
    last = [seconds(each.transform_steps) for each in proposer.propose(12)]
    assert (
        min(last + [min(searched.seconds, default=1.0) for searched in proposer.programs])
        == 1e-3 / 2.0**8
    )


def test_failed_trials_are_learned_from_and_steps_of_nobody_passed_over():
    proposer = Proposer(models("matmul")[1], np.random.default_rng(4), SMALL)
    batch = proposer.propose(8)
    proposer.learn([(each.transform_steps, math.inf) for each in batch] + [((), 1.0)])
    assert len(proposer.propose(8)) == 8


@pytest.mark.parametrize("name", ["matmul", "strided"])
def test_programs_for_a_cpu_lower(name):
    task, found = models(name, "llvm")
    rng = np.random.default_rng(0)
    for each in found:
        for row in RowSampler(each.program, each.limits(), rng).draw(2):
            kernel_of(task.realise(each.program.candidate(row)).what, task.target)


def test_evolution_finds_what_a_model_of_a_script_likes():
    class LikesEight(PythonBasedModel):
        def predict(self, task, states):
            return [float(state.stages[-1].iters[-1].extent == 8) for state in states]

    task = SearchTask(compute_dag=ComputeDAG(matmul(16, 16, 16)), target="llvm")
    params = {"evolutionary_search_population": 64, "evolutionary_search_num_iters": 2}
    policy = SketchPolicy(task, LikesEight(), params=params, seed=0)
    start = [each for each in policy.sample_initial_population(20) if not liked(each)]
    assert all(liked(each) for each in policy.evolutionary_search(start, 3))


def test_the_states_that_a_model_of_a_script_likes_are_the_ones_that_are_proposed():
    class LikesEight(PythonBasedModel):
        def __init__(self):
            self.told = 0

        def update(self, inputs, results):
            self.told += len(inputs)

        def predict(self, task, states):
            return [float(liked(state)) for state in states]

    task = SearchTask(compute_dag=ComputeDAG(matmul(16, 16, 16)), target="llvm")
    params = {"evolutionary_search_population": 64, "evolutionary_search_num_iters": 2}
    model = LikesEight()
    policy = SketchPolicy(task, model, params={**params, "eps_greedy": 0.25}, seed=0)
    proposed = policy.propose(8)
    states = [policy.task.compute_dag.init_state.after(each.transform_steps) for each in proposed]
    assert [liked(state) for state in states[:6]] == [True] * 6
    assert len({each.key for each in proposed}) == 8
    results = [MeasureResult((1e-3,), 0, 1.0, 0.0)] * 8
    policy.learn(zip([MeasureInput(task, each) for each in proposed], results, strict=True))
    assert model.told == 8
    assert not {each.key for each in proposed} & {each.key for each in policy.propose(8)}


def liked(state):
    return state.stages[-1].iters[-1].extent == 8


def test_a_model_ranks_as_it_learned_and_comes_back_from_a_file(tmp_path):
    task = SearchTask(compute_dag=ComputeDAG(matmul(16, 16, 16)), target="llvm")
    policy = SketchPolicy(task, XGBModel(), seed=0)
    states = policy.sample_initial_population(12)
    model = XGBModel(seed=0)
    results = [MeasureResult((1e-5 * 2.0**i,), 0, 1.0, 0.0) for i in range(len(states))]
    model.update([MeasureInput(task, state) for state in states], results)
    scores = model.predict(task, states)
    assert max(scores) <= 1.5
    assert np.corrcoef(np.log2(scores), np.arange(len(scores)))[0, 1] < -0.8
    model.save(tmp_path / "model.json")
    other = XGBModel(seed=0)
    other.load(tmp_path / "model.json")
    assert other.predict(task, states) == scores
    (tmp_path / "model.json").write_text("{}x")
    with pytest.raises(RecordError, match=r"a model that XGBModel.save wrote"):
        other.load(tmp_path / "model.json")


def test_threads_that_reduce_together_are_chosen_and_no_kernel_needs_their_number_to_divide():
    task = SearchTask(
        compute_dag=ComputeDAG(of(topi.nn.softmax, (8, 100))), target="cuda -arch=sm_90"
    )
    (each, *_) = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    threads = each.program.slots[0]
    assert isinstance(threads, ChoiceSlot)
    assert threads.values == (32, 64)
    rng = np.random.default_rng(0)
    rows = RowSampler(each.program, each.limits(), rng).draw(100)
    row = next(row for row in rows if row[0] == 64)
    kernel = kernel_of(task.realise(each.program.candidate(row)).what, task.target)
    assert [call.launch.threads for call in kernel.calls] == [64]


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_distinct_rows_are_those_that_sorting_finds(count, width, seed):
    rows = np.random.default_rng(seed).integers(0, 3, (count, width))
    found = distinct(rows)
    assert sorted(map(tuple, found)) == sorted(set(map(tuple, rows)))
    assert (distinct(rows) == found).all()


def test_a_search_looks_at_each_generation_once():
    """The model is asked for the rows of all programs together, which costs a seventh."""
    _, found = models("tutorial")
    proposer = Proposer(found, np.random.default_rng(0), SMALL)
    first = proposer.propose(8)
    proposer.learn([(each.transform_steps, 1e-5 * (i + 1)) for i, each in enumerate(first)])
    asked = []
    predict = proposer.model.predict
    proposer.model.predict = lambda *given: asked.append(1) or predict(*given)
    assert len(proposer.propose(8)) == 8
    assert len(proposer.programs) > 1
    # Drawn rows, each generation, neighbours.
    assert len(asked) == 1 + math.ceil(SMALL.generations / 2) + 1


def test_inner_steps_that_are_no_straight_code_make_outer_loops_read_again():
    task = SearchTask(compute_dag=ComputeDAG(matmul(64, 64, 64)), target="cuda -arch=sm_90")
    (each, *_) = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    (tiled,) = each.tiled
    row = [1 if slot.width == 1 else 0 for slot in each.program.slots for _ in range(slot.width)]
    row[tiled.unroll] = 0
    for axis in tiled.data:  # two outer and two inner results along either axis, eight threads
        row[axis.columns] = [1, 8, 2, 2]
    steps = np.array([row, row])
    steps[:, tiled.reductions[0].columns] = [[4, 8], [1, 32]]
    stage = StageEstimate(tiled, steps, each.device)
    assert [traffic.again.tolist() for traffic in stage.traffic] == [[1, 2], [1, 2]]
    assert stage.seconds[1] > stage.seconds[0]
