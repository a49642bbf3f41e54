"""Weights in the order in which a state reads them: TVM's three options, all of them right."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autotune
from autotune import te, topi
from autotune.auto_scheduler import (
    ComputeDAG,
    LayoutRewriteOption,
    LocalBuilder,
    LocalRunner,
    MeasureInput,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TuningOptions,
    XGBModel,
    load_best,
    save_records,
)
from autotune.auto_scheduler.layouts.layout_graph import TRANSFORM
from autotune.auto_scheduler.records.resume import measured_states
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.transform_steps import CacheReadStep
from autotune.auto_scheduler.tune_task import best_of_log
from autotune.codegen import kernel_of_schedule
from autotune.errors import ScheduleError
from autotune.kernel.layout import TiledLayout
from autotune.measure import MeasureResult
from autotune.target import Target
from autotune.tvm.auto_scheduler import get_shape_from_rewritten_layout
from tests.auto_scheduler.graphs import conv2d_layer
from tests.fuzz.running import Job, run_batch

NO, INSERT, AHEAD = LayoutRewriteOption
PARAMS = SketchPolicy.DEFAULT_PARAMS
WORKLOADS = {
    "dense": lambda: dense(6, 24, 16),
    "conv-nchw": lambda: conv2d_layer(1, 5, 5, 16, 8, 3, 3, (1, 1), (1, 1)),
    "conv-nhwc": lambda: convolution(topi.nn.conv2d_nhwc, (1, 6, 6, 8), (3, 3, 8, 16)),
    "groups": lambda: grouped(),
    "batch": lambda: batch(),
    "two": lambda: two_layers(),
}


def free_matmul(n, m, k):
    """Return a product whose second factor may lie in any order, as in TVM's tests."""
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute(
        (n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=[r]), name="C",
        attrs={"layout_free_placeholders": [b]},
    )  # fmt: skip
    return [a, b, c]


def dense(n, m, k):
    x, w = te.placeholder((n, k), name="x"), te.placeholder((m, k), name="w")
    return [x, w, topi.nn.relu(topi.nn.dense(x, w))]


def convolution(operator, data, filters):
    x, w = te.placeholder(data, name="x"), te.placeholder(filters, name="w")
    return [x, w, topi.nn.relu(operator(x, w, 1, 1))]


def grouped():
    x, w = te.placeholder((1, 8, 6, 6), name="x"), te.placeholder((16, 4, 3, 3), name="w")
    return [x, w, topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, 2)]


def batch():
    x, w = te.placeholder((2, 6, 8), name="x"), te.placeholder((2, 12, 8), name="w")
    return [x, w, topi.batch_matmul(x, w)]


def two_layers():
    x, v = te.placeholder((4, 8), name="x"), te.placeholder((12, 8), name="v")
    w = te.placeholder((16, 12), name="w")
    return [x, v, w, topi.nn.dense(topi.nn.relu(topi.nn.dense(x, v)), w)]


def tiled_matmul(n=512):
    """Return TVM's tiled product: its graph and a state of three levels of tiles."""
    dag = ComputeDAG(free_matmul(n, n, n))
    state = dag.get_init_state()
    c = state.stages[-1].op
    rows = state.split(c, state[c].iters[0], [4, 8, 8])
    columns = state.split(c, state[c].iters[4], [8, 4, 4])
    order = [loop for pair in zip(rows, columns, strict=True) for loop in pair]
    state.reorder(c, [*order, state[c].iters[8]])
    return dag, state


@pytest.mark.parametrize(
    ("option", "shape", "stages"),
    [
        (NO, (512, 512), ["A", "B", "C"]),
        (INSERT, (512, 512), ["A", "B", TRANSFORM, "C"]),
        (AHEAD, (4, 8, 4, 4, 512), ["A", "B", "C"]),
    ],
)
def test_each_option_gives_the_shapes_and_stages_of_tvm(option, shape, stages):
    dag, state = tiled_matmul()
    schedule, tensors = dag.apply_steps_from_state(state, layout_rewrite=option)
    assert tensors[1].shape == shape
    assert [stage.op.name for stage in schedule.stages] == stages


def test_the_graph_of_a_state_takes_the_weights_in_its_order():
    dag, state = tiled_matmul()
    text = str(dag.rewrite_layout_from_state(state))
    assert "B = PLACEHOLDER [4, 8, 4, 4, 512]" in text
    assert "B[floordiv(j, 128), floormod(floordiv(j, 16), 8)," in text
    assert str(dag.layouts_from_state(state)[1].text("kj")) == "4j8j4j4j512k"


def test_the_operation_says_its_layout_as_in_tvm():
    dag, state = tiled_matmul()
    attrs = dag.rewrite_layout_from_state(state).ops[-1].attrs
    assert attrs["ori_placeholder_layout"] == "512k512j"
    assert attrs["new_placeholder_layout"] == "4j8j4j4j512k"
    assert get_shape_from_rewritten_layout("4j8j4j4j512k", ["k", "j"]) == (512, 512)


def test_rewritten_reads_are_as_simple_as_the_loops():
    """No division is left in the loops: the order of the weights is the order of the loops."""
    dag, state = tiled_matmul()
    text = str(autotune.lower(*dag.apply_steps_from_state(state, AHEAD), simple_mode=True))
    assert "//" not in text
    assert "%" not in text
    read = "B[j.outer.outer.outer * 65536 + j.outer.outer.inner * 8192 + j.outer.inner * 2048"
    assert f"{read} + j.inner * 512 + k]" in text


def test_a_product_of_single_elements_has_no_order():
    dag = ComputeDAG(free_matmul(1, 1, 1))
    state = dag.get_init_state()
    state.fuse(state.stages[-1].op, [state.stages[-1].iters[0], state.stages[-1].iters[1]])
    assert dag.apply_steps_from_state(state, AHEAD)[1][1].shape == (1, 1)


def test_weights_that_are_copied_or_read_twice_stay_as_they_are():
    dag, state = tiled_matmul()
    copied = dag.get_init_state()
    copied.cache_read(1, "global", [2])
    for step in state.transform_steps:
        copied = copied.with_object(step.making_room(2).apply(copied.state_object))
    assert dag.layouts_from_state(copied) == (None,) * 3
    a, b, c = free_matmul(8, 8, 8)
    twice = ComputeDAG([a, b, te.compute((8, 8), lambda i, j: c[i, j] + b[j, i], name="D")])
    state = twice.get_init_state()
    state.reorder(c.op, [state[c.op].iters[i] for i in (1, 0, 2)])
    assert twice.layouts_from_state(state) == (None,) * 3


def test_tiles_that_do_not_divide_the_weights_leave_them_as_they_are():
    dag = ComputeDAG(free_matmul(8, 10, 8))
    state = dag.get_init_state()
    state.split(2, state.stages[2].iters[1], [4])
    state.reorder(2, [state.stages[2].iters[i] for i in (1, 0, 3, 2)])
    assert dag.layouts_from_state(state) == (None,) * 3


def test_an_option_that_does_not_exist_is_refused():
    dag, state = tiled_matmul()
    with pytest.raises(ScheduleError, match="must be 0, 1 or 2"):
        dag.apply_steps_from_state(state, layout_rewrite=3)


def arrays_of(dag):
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in dag.tensors]


def job_of(dag, state, option, arrays, name):
    """Return a kernel of a state, and its inputs as it takes them."""
    schedule, tensors = dag.apply_steps_from_state(state, option)
    layouts = dag.layouts_from_state(state) if option == AHEAD else (None,) * len(arrays)
    given = [
        array if layout is None else layout.forward(array)
        for array, layout in zip(arrays, layouts, strict=True)
    ]
    inputs = given[: -len(dag.outputs)]
    return Job(kernel_of_schedule(schedule, list(tensors), Target("c"), name), inputs, 0)


def states_of(name, seed, count=3):
    """Return states of a workload at random, of all its programs."""
    dag = ComputeDAG(WORKLOADS[name]())
    task = SearchTask(compute_dag=dag, target="llvm", layout_rewrite_option=AHEAD)
    return dag, SketchPolicy(task, seed=seed).proposer.sample(count)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", WORKLOADS)
@given(seed=st.integers(0, 2**20))
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_order_of_weights_the_kernel_computes_the_same(name, seed, tmp_path_factory):
    dag, states = states_of(name, seed)
    arrays, folder = arrays_of(dag), tmp_path_factory.mktemp("layouts")
    plain = (dag.init_state, NO)
    moved = [(state, option) for state in states for option in (INSERT, AHEAD)]
    jobs = [job_of(dag, *each, arrays, f"k{i}") for i, each in enumerate([plain, *moved])]
    wanted, *found = run_batch(jobs, folder)
    for outcome in found:
        assert not isinstance(outcome, str), outcome
        np.testing.assert_allclose(outcome[0], wanted[0], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", WORKLOADS)
def test_most_states_of_a_search_read_weights_in_an_order_of_their_own(name):
    dag, states = states_of(name, 0, 24)
    moved = [state for state in states if any(dag.layouts_from_state(state))]
    assert len(moved) > len(states) // 3


def test_a_search_packs_no_weights_that_come_in_its_order():
    def packs(option):
        task = SearchTask(
            compute_dag=ComputeDAG(dense(64, 64, 64)), target="llvm", layout_rewrite_option=option
        )
        steps = [step for each in sketches_of(task, PARAMS) for step in each.transform_steps]
        return any(isinstance(step, CacheReadStep) for step in steps)

    assert packs(NO)
    assert packs(INSERT)
    assert not packs(AHEAD)


def test_weights_in_the_order_of_the_loops_are_estimated_as_read_in_vectors():
    def forms(option):
        task = SearchTask(
            compute_dag=ComputeDAG(dense(64, 64, 64)), target="llvm", layout_rewrite_option=option
        )
        return programs_of(task, sketches_of(task, PARAMS), PARAMS)[0]

    plain, ahead, inserted = forms(NO), forms(AHEAD), forms(INSERT)
    rows = np.array(
        SketchPolicy(
            SearchTask(compute_dag=ComputeDAG(dense(64, 64, 64)), target="llvm"), seed=0
        ).proposer.programs[0].sampler.draw(64)
    )  # fmt: skip
    assert (ahead(rows).seconds <= plain(rows).seconds).all()
    assert (ahead(rows).seconds < inserted(rows).seconds).all()


@pytest.mark.parametrize("option", [INSERT, AHEAD])
def test_what_is_measured_is_what_would_run(option, tmp_path):
    """Trials are compared with the graph as it was written, weights row by row."""
    dag = ComputeDAG(dense(8, 32, 16))
    task = SearchTask(compute_dag=dag, target="c", layout_rewrite_option=option)
    log = tmp_path / "log.json"
    builder, runner = LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1, timeout=60)
    options = TuningOptions(
        6, verbose=0, measure_callbacks=[RecordToFile(log)], builder=builder, runner=runner
    )
    task.tune(options, SketchPolicy(task, XGBModel(), seed=0))
    rows = [json.loads(line) for line in log.read_text().splitlines() if line[0] == "{"]
    assert rows
    assert all(row["i"][0][4] == option and row["r"][1] == 0 for row in rows)
    inp, _ = load_best(log, task.workload_key)
    run = autotune.build(*task.apply_best(log), task.target)
    x, w, out = arrays_of(dag)
    layout = task.layouts_of(inp.state)[1]
    assert layout is None or option == AHEAD
    run(x, w if layout is None else layout.forward(w), out)
    np.testing.assert_allclose(out, np.maximum(x @ w.T, 0), rtol=1e-4, atol=1e-5)
    plain = autotune.build(*task.apply_best(log, layout_rewrite_option=NO), task.target)
    plain(x, w, out)
    np.testing.assert_allclose(out, np.maximum(x @ w.T, 0), rtol=1e-4, atol=1e-5)


def test_times_with_weights_in_another_order_count_only_where_there_are_no_others(tmp_path):
    dag = ComputeDAG(dense(8, 32, 16))
    tasks = {
        option: SearchTask(compute_dag=dag, target="llvm", layout_rewrite_option=option)
        for option in LayoutRewriteOption
    }
    states = SketchPolicy(tasks[AHEAD], seed=0).proposer.sample(2)
    rows = [(AHEAD, states[0], 1e-6), (NO, states[1], 2e-6)]
    inputs = [MeasureInput(tasks[option], state) for option, state, _ in rows]
    results = [MeasureResult([seconds], 0, 0.1, 0.0, "") for *_, seconds in rows]
    log = tmp_path / "log.json"
    save_records(log, inputs, results)
    found = {option: best_of_log(task, log)[0].key for option, task in tasks.items()}
    assert found == {AHEAD: states[0].key, NO: states[1].key, INSERT: states[0].key}
    known = {option: [i.key for i, _ in measured_states(t, log)] for option, t in tasks.items()}
    assert known == {AHEAD: [states[0].key], NO: [states[1].key], INSERT: []}


def test_weights_in_another_order_than_the_kernel_reads_them_are_a_wrong_answer(monkeypatch):
    dag = ComputeDAG(dense(4, 16, 16))
    task = SearchTask(compute_dag=dag, target="c", layout_rewrite_option=AHEAD)

    def transposed(task, candidate):
        """Take rows of the weights for columns: the shapes stay the same."""
        return tuple(
            None
            if each is None
            else TiledLayout(each.shape, tuple((1 - i, n) for i, n in each.parts))
            for each in task.compute_dag.layouts_from_state(candidate)
        )

    monkeypatch.setattr(SearchTask, "layouts_of", transposed)
    wrong = []

    def note(policy, inputs, results):
        for inp, result in zip(inputs, results, strict=True):
            moved = any(dag.layouts_from_state(inp.state))
            assert result.ok != moved
            wrong.append(moved)

    builder, runner = LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1, timeout=60)
    options = TuningOptions(6, verbose=0, measure_callbacks=[note], builder=builder, runner=runner)
    task.tune(options, SketchPolicy(task, XGBModel(), seed=0))
    assert any(wrong)


def test_loops_of_one_iteration_have_a_dimension_of_their_own_as_in_tvm():
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((8, 6), name="B")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute(
        (4, 6), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C",
        attrs={"layout_free_placeholders": [b]},
    )  # fmt: skip
    dag = ComputeDAG([a, b, c])
    s = dag.get_init_state()
    s.split(c, s[c].iters[1], [1, 3])
    _, order, _ = dag.layouts_from_state(s)
    assert order.tiled_shape == (2, 1, 3, 8)
    plain = dag.get_init_state()
    plain.split(c, plain[c].iters[2], [1])
    plain.reorder(c, [plain[c].iters[i] for i in (2, 3, 0, 1)])
    assert dag.layouts_from_state(plain) == (None, None, None)
