"""Whole searches: tuned, logged, applied, printed, resumed; on the C target and the emulator."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import autotune
from autotune import te, topi
from autotune.auto_scheduler import (
    ComputeDAG,
    EmptyPolicy,
    HardwareParams,
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    PreloadMeasuredStates,
    RandomModel,
    RecordReader,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TuningOptions,
    XGBModel,
    auto_schedule,
    fair,
    load_best,
)
from autotune.errors import AutotuneError
from autotune.measure import Session
from autotune.measure.evidence import Evidence, Race, RacedCandidate
from autotune.measure.types import MeasureResult
from autotune.topi.testing import conv2d_nchw_python
from tests.auto_scheduler.graphs import matmul
from tests.auto_scheduler.stated import Nothing, Stated

pytestmark = pytest.mark.usefixtures("quick_searches", "own_workloads")

STATED = {"builder": Nothing(n_parallel=1), "runner": Stated()}
LAYER = (1, 5, 5, 8, 8, 3, 3, (1, 1), (1, 1))


@pytest.fixture(scope="module")
def means():
    builder, runner = LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1, timeout=60)
    yield {"builder": builder, "runner": runner}
    builder.close()
    runner.close()


def test_processes_start_before_a_search_looks_for_its_first_proposals(means, monkeypatch):
    order = []
    prepare, propose = Session.prepare, SketchPolicy.propose
    monkeypatch.setattr(Session, "prepare", lambda *a: order.append("prepare") or prepare(*a))
    monkeypatch.setattr(SketchPolicy, "propose", lambda *a: order.append("propose") or propose(*a))
    task = SearchTask(func="matmul", args=(16, 16, 16), target="c")
    task.tune(TuningOptions(2, verbose=0, **means), SketchPolicy(task, XGBModel(), seed=0))
    assert order[:2] == ["prepare", "propose"]


def layer_arrays():
    rng = np.random.default_rng(0)
    shapes = ((1, 8, 5, 5), (8, 8, 3, 3), (1, 8, 1, 1))
    data, kernel, bias = (rng.random(shape, np.float32) for shape in shapes)
    return data, kernel, bias, np.maximum(conv2d_nchw_python(data, kernel, 1, 1) + bias, 0)


def test_a_product_is_tuned_logged_applied_and_right(means, tmp_path):
    task = SearchTask(func="matmul", args=(32, 24, 16), target="c")
    log = tmp_path / "log.json"
    options = TuningOptions(4, verbose=0, measure_callbacks=[RecordToFile(log)], **means)
    assert task.tune(options, SketchPolicy(task, XGBModel(), seed=0)) is None
    assert all(result.ok for _, result in RecordReader(log))
    schedule, args = task.apply_best(log)
    function = autotune.build(schedule, args, task.target)
    rng = np.random.default_rng(0)
    a, b = rng.random((32, 16), np.float32), rng.random((16, 24), np.float32)
    c = np.zeros((32, 24), np.float32)
    function(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_the_tutorial_runs_on_the_emulator(means, tmp_path, capsys):
    task = SearchTask(func="conv2d_layer", args=LAYER, target="cuda -emulate")
    log = str(tmp_path / "conv2d.json")
    context = LocalRPCMeasureContext(number=1, repeat=1, timeout=60)
    assert "Get devices for measurement successfully!" in capsys.readouterr().out
    options = TuningOptions(
        num_measure_trials=3, builder=means["builder"], runner=context.runner,
        measure_callbacks=[RecordToFile(log)], verbose=0,
    )  # fmt: skip
    task.tune(options)
    schedule, args = task.apply_best(log)
    del context
    function = autotune.build(schedule, args, task.target)
    *inputs, expected = layer_arrays()
    out = np.zeros_like(expected)
    function(*inputs, out)
    np.testing.assert_allclose(out, expected, rtol=1e-3)
    assert "s[compute].bind(" in task.print_best(log, print_mode="schedule")
    cuda = task.print_best(log, print_mode="cuda")
    assert re.match(r"// \w+<<<dim3\(\d+, 1, 1\), dim3\(\d+, 1, 1\)", cuda)
    assert "__global__" in cuda
    space = {}
    exec(task.print_best(log, print_mode="python"), {"te": te}, space)
    again, tensors = space["schedule"](task.compute_dag.tensors)
    assert str(autotune.lower(again, tensors)) == str(autotune.lower(schedule, args))


def test_a_search_goes_on_where_its_log_ends(means, tmp_path, capsys):
    task = SearchTask(func="matmul", args=(16, 16, 16), target="c")
    log = str(tmp_path / "log.json")
    options = TuningOptions(3, verbose=0, measure_callbacks=[RecordToFile(log)], **means)
    task.tune(options)
    first = [inp.key for inp, _ in RecordReader(log)]
    model = XGBModel()
    model.update_from_file(log)
    policy = SketchPolicy(task, model, init_search_callbacks=[PreloadMeasuredStates(log)])
    said = f"SearchPolicy: Loaded 3 measurement records from {log} for {task.workload_key}"
    assert said in capsys.readouterr().out
    task.tune(options, search_policy=policy)
    keys = [inp.key for inp, _ in RecordReader(log)]
    assert keys[:3] == first
    assert len(set(keys)) == 6


def test_the_first_generation_of_scripts_runs(means, tmp_path):
    task = autotune.auto_scheduler.create_task("matmul", (16, 16, 16), "c")
    log = str(tmp_path / "log.json")
    options = TuningOptions(3, verbose=0, measure_callbacks=[RecordToFile(log)], **means)
    schedule, args = auto_schedule(task, tuning_options=options)
    assert tuple(args) == task.compute_dag.tensors
    inp, _ = load_best(log, task.workload_key)
    assert task.compute_dag.apply_steps_from_state(inp.state)[0] == schedule
    assert task.compute_dag.print_python_code_from_state(inp.state)


def test_without_trials_the_state_predicted_best_is_taken(means):
    task = SearchTask(func="matmul", args=(16, 16, 16), target="c")
    schedule, _ = auto_schedule(task, tuning_options=TuningOptions(0, **means))
    assert len(schedule.steps) > 3


def test_a_random_search_measures_what_a_script_watches(means):
    task = SearchTask(func="matmul", args=(16, 16, 16), target="c")
    seen = []

    class Watch:
        def callback(self, policy, inputs, results):
            assert policy.search_task.workload_key == inputs[0].task.workload_key
            seen.extend(result.ok for result in results)

    policy = SketchPolicy(task, RandomModel(), seed=1)
    task.tune(TuningOptions(3, verbose=0, measure_callbacks=[Watch()], **means), policy)
    assert seen == [True] * 3
    # The final race times the winner again, and decides, however lucky a trial was.
    assert policy.best[0].key == policy.result.best_config.key
    assert policy.best[1] == policy.result.seconds
    assert policy.result.log is None


def test_the_empty_policy_measures_the_plain_state(means, tmp_path):
    task = SearchTask(func="matmul", args=(16, 16, 16), target="c")
    log = str(tmp_path / "log.json")
    options = TuningOptions(2, verbose=0, measure_callbacks=[RecordToFile(log)], **means)
    policy = EmptyPolicy(task)
    task.tune(options, policy)
    assert str(policy.result.log) == log
    assert [inp.state.transform_steps for inp, _ in RecordReader(log)] == [(), ()]


def test_a_missing_log_warns_a_resumed_search_and_fails_its_use(tmp_path, caplog):
    task = SearchTask(func="matmul", args=(16, 16, 16), target="c")
    missing = str(tmp_path / "none.json")
    SketchPolicy(task, init_search_callbacks=[PreloadMeasuredStates(missing)])
    assert f"{missing} does not exist!" in caplog.text
    other = tmp_path / "other.json"
    other.write_text("# nothing yet\n")
    with pytest.raises(RuntimeError, match=r"Cannot find any valid schedule for .* in file"):
        task.apply_best(str(other))


def test_what_options_take_is_checked():
    with pytest.raises(ValueError, match="Invalid builder: expected 'local' or a builder"):
        TuningOptions(builder="remote")
    with pytest.raises(ValueError, match="num_measure_trials must be a whole number"):
        TuningOptions(num_measure_trials=-1)
    with pytest.raises(ValueError, match=r"early_stopping must be a whole number .* got 2\.5"):
        TuningOptions(early_stopping=2.5)
    with pytest.raises(ValueError, match="measure_callbacks must be a list"):
        TuningOptions(measure_callbacks=RecordToFile("log.json"))
    with pytest.raises(ValueError, match="measure_callbacks must be a function"):
        TuningOptions(measure_callbacks=["log.json"])
    assert TuningOptions(num_measure_trials=np.int64(5)).num_measure_trials == 5


@pytest.mark.parametrize("never", [None, 0, -1])
def test_a_search_that_never_stops_early_is_asked_for_as_in_tvm(never, tmp_path):
    task, log = SearchTask(func="matmul", args=(8, 8, 8), target="c"), str(tmp_path / "log.json")
    options = TuningOptions(3, never, measure_callbacks=[RecordToFile(log)], verbose=0, **STATED)
    task.tune(options, SketchPolicy(task, seed=0))
    assert len(list(RecordReader(log))) == 3


def test_a_search_in_which_nothing_runs_says_why_and_goes_on(means, caplog):
    task = SearchTask(compute_dag=ComputeDAG(matmul(16, 16, 16)), target="cuda -emulate")
    # The plain state binds no thread, so none of its kernels can be launched.
    task.tune(TuningOptions(3, verbose=0, **means), EmptyPolicy(task))
    assert "cannot run, most because of" in caplog.text


def test_parameters_of_a_search_that_nothing_reads_or_that_are_no_numbers_are_named(caplog):
    task = SearchTask(func="matmul", args=(8, 8, 8), target="c")
    policy = SketchPolicy(task, params={"eps_gredy": 0.5, "max_vectorize_size": 8})
    assert (policy.params["eps_greedy"], policy.params["max_vectorize_size"]) == (0.05, 8)
    assert "params has 'eps_gredy', which nothing reads; did you mean 'eps_greedy'" in caplog.text
    for name in ("eps_greedy", "cpu_multi_level_tiling_structure"):
        with pytest.raises(ValueError, match=name):
            SketchPolicy(task, params={name: None})
    older = {"evolutionary_search_use_measured_ratio": 0.5}
    assert SketchPolicy(task, params=older).params["sample_init_use_measured_ratio"] == 0.5


@pytest.mark.parametrize("logs", [True, False])
def test_an_interrupted_search_says_what_goes_on_with_its_log(caplog, tmp_path, logs):
    task = SearchTask(func="matmul", args=(16, 16, 16), target="c")

    def interrupt(*_):
        raise KeyboardInterrupt

    callbacks = [RecordToFile(str(tmp_path / "log.json"))] * logs + [interrupt]
    with pytest.raises(KeyboardInterrupt):
        task.tune(TuningOptions(9, verbose=0, measure_callbacks=callbacks, **STATED))
    told = "continue it with PreloadMeasuredStates, or load_log_file" in caplog.text
    assert told == logs


def test_a_search_that_finds_nothing_within_the_limits_says_so(caplog):
    none = HardwareParams(max_threads_per_block=0, target="cuda")
    dag = ComputeDAG(matmul(16, 16, 16))
    task = SearchTask(compute_dag=dag, target="cuda -emulate", hardware_params=none)
    task.tune(TuningOptions(3, verbose=0))
    assert (
        "nothing was measured, as no program of it was found that keeps the limits" in caplog.text
    )
    assert "max_threads_per_block: 0" in caplog.text


def test_proposals_may_be_asked_for_without_measuring():
    task = SearchTask(func="conv2d_layer", args=LAYER, target="cuda -arch=sm_90")
    policy = SketchPolicy(task, XGBModel(), seed=0)
    states = policy.sample_initial_population(5)
    assert len({str([step.to_row() for step in each.transform_steps]) for each in states}) == 5
    assert all(state.concrete for state in states)
    assert len(policy.generate_sketches()) == 1


@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
def test_what_is_returned_and_read_as_well_is_stored(means, target, tmp_path):
    a = te.placeholder((8, 16), name="A")
    twice = te.compute((8, 16), lambda i, j: a[i, j] * 2, name="B")
    part = te.compute((4, 6), lambda i, j: twice[i + 3, j + 5] + 1, name="C")
    task = SearchTask(compute_dag=ComputeDAG([a, twice, part]), target=target)
    log = str(tmp_path / "log.json")
    task.tune(TuningOptions(2, verbose=0, measure_callbacks=[RecordToFile(log)], **means))
    assert all(result.extra["verified"] for _, result in RecordReader(log))
    function = autotune.build(*task.apply_best(log), task.target)
    given = np.arange(128, dtype="float32").reshape(8, 16)
    b, c = np.zeros_like(given), np.zeros((4, 6), "float32")
    function(given, b, c)
    np.testing.assert_array_equal(b, 2 * given)
    np.testing.assert_array_equal(c, 2 * given[3:7, 5:11] + 1)


def test_a_pooling_layer_is_found_under_its_older_key(tmp_path):
    x = te.placeholder((1, 7, 7, 512), name="p0")
    task = SearchTask(
        compute_dag=ComputeDAG([x, topi.nn.global_pool(x, "avg", "NHWC")]), target="cuda"
    )
    key = json.dumps(["be3babb9a46e32f66b717a3e2a2d522c", [1, 7, 7, 512], [1, 1, 1, 512]])
    row = {"i": [[key, "cuda"], [[], [["CI", 1]]]], "r": [[1e-5], 0, 1, 1], "v": "v0.2"}
    log = tmp_path / "old.json"
    log.write_text(json.dumps(row) + "\n")
    with pytest.raises(AutotuneError, match="compute_inline"):  # found, but of no use
        task.apply_best(str(log))


@pytest.mark.parametrize("step", [["CI", 99], ["PR", 2, 0, "unroll_all"]])
def test_a_faster_record_that_does_not_fit_is_passed_over(step, tmp_path, caplog):
    task = SearchTask(func="matmul", args=(32, 24, 16), target="llvm")
    rows = [([["SP", 2, 0, 32, [4], 1]], 2e-5), ([step], 1e-5)]
    log = tmp_path / "log.json"
    for steps, seconds in rows:
        row = {"i": [[task.workload_key, "llvm"], [[], steps]], "r": [[seconds], 0, 1, 1]}
        with log.open("a") as file:
            file.write(json.dumps(row) + "\n")
    assert len(task.apply_best(log)[0].stages[2].leaf_iter_vars) == 4
    assert "1 faster records do not fit it and are passed over" in caplog.text
    assert "split" in task.print_best(log)


def test_what_a_race_passed_over_does_not_come_before_its_winner():
    lucky, raced, later = (
        SimpleNamespace(key=k, task=SimpleNamespace(workload_key="w")) for k in "abc"
    )
    proof = Evidence(race=Race((RacedCandidate("b", 2.0),), passed_over=("a",)))
    pairs = [
        (lucky, MeasureResult((1.0,), 0, 1.0, 0.0)),
        (raced, MeasureResult((0.5,), 0, 1.0, 0.0)),
        (raced, MeasureResult((2.0,), 0, 1.0, 0.0, evidence=proof)),
        (later, MeasureResult((3.0,), 0, 1.0, 0.0)),
    ]
    assert [(inp.key, result.seconds) for inp, result in fair(pairs)] == [("b", 2.0), ("c", 3.0)]
