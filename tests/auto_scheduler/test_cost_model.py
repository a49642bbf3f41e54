"""Models that rank states: what they predict, learn from, write and say."""

import logging
import math

import numpy as np
import pytest

from autotune.auto_scheduler import (
    ComputeDAG,
    MeasureInput,
    RandomModel,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TaskScheduler,
    TuningOptions,
    XGBModel,
    save_records,
    workload_registry,
)
from autotune.errors import AutotuneError, RecordError
from autotune.measure import MeasureResult
from tests.auto_scheduler.graphs import matmul

pytestmark = pytest.mark.usefixtures("quick_searches", "own_workloads")


def product(n=32, target="llvm"):
    return SearchTask(func="matmul", args=(n, n, n), target=target)


def trials_of(task, count=24, seed=0):
    """Return states of a task, and results in which more iterations innermost are faster."""
    states = SketchPolicy(task, seed=seed, verbose=0).sample_initial_population(count)
    inputs = [MeasureInput(task, state) for state in states]
    return states, inputs, [result_of(state) for state in states]


def result_of(state):
    inner = state.stages[-1].iters[-1].extent or 1
    return MeasureResult((1e-5 / inner,), 0, 0.1, 1.0)


def test_speeds_are_predicted_relative_to_the_fastest():
    """The bound is that of TVM's own test: 0.3 on what was learned."""
    rng = np.random.default_rng(0)
    task = product(128)
    states, inputs, _ = trials_of(task, 50)
    seconds = rng.uniform(0.5, 1.0, len(states))
    results = [MeasureResult((float(each),), 0, 0.1, 0.0) for each in seconds]
    model = XGBModel(num_warmup_sample=-1)
    model.update(inputs, results)
    found = model.predict(task, states)
    assert len(found) == len(states)
    assert np.sqrt(np.mean((np.array(found) - seconds.min() / seconds) ** 2)) <= 0.3


def test_a_log_and_a_file_teach_what_the_trials_themselves_do(tmp_path):
    task = product()
    states, inputs, results = trials_of(task)
    taught, read, loaded = (XGBModel(seed=0) for _ in range(3))
    taught.update(inputs, results)
    save_records(str(tmp_path / "log.json"), inputs, results)
    read.update_from_file(tmp_path / "log.json")
    taught.save(tmp_path / "model.json")
    loaded.load(tmp_path / "model.json")
    assert loaded.predict(task, states) == taught.predict(task, states)
    assert np.corrcoef(read.predict(task, states), taught.predict(task, states))[0, 1] > 0.9
    assert (taught.num_warmup_sample, loaded.num_warmup_sample) == (100, -1)
    with pytest.raises(RecordError, match=r"cannot write .*model\.json.other\.json"):
        taught.save(tmp_path / "model.json" / "other.json")


def test_the_first_lines_of_a_log_can_be_enough(tmp_path):
    task = product()
    _, inputs, results = trials_of(task)
    save_records(str(tmp_path / "log.json"), inputs, results)
    model = XGBModel()
    model.update_from_file(tmp_path / "log.json", n_lines=5)
    assert model.count == len(model.trials(task)) == 5


def test_what_cannot_run_is_ranked_behind_everything():
    task = product(64, "cuda -arch=sm_90")
    policy = SketchPolicy(task, XGBModel(), seed=0, verbose=0)
    (fits,) = policy.sample_initial_population(1)
    searched = next(searched for searched in policy.proposer.programs if searched.cost_model.tiles)
    row = np.array([max(slot.values) if slot.width == 1 else 1 for slot in searched.program.slots
                    for _ in range(slot.width)])  # fmt: skip
    threads = searched.program.columns[searched.program.slots[0].step]
    row[threads] = [1, 1, 1, 1]  # one thread a block
    broken = searched.program.candidate(row)
    scores = policy.program_cost_model.predict(task, [fits, broken])
    assert math.isfinite(scores[0])
    assert scores[1] == -math.inf


@pytest.mark.parametrize("model", [XGBModel(), RandomModel()])
def test_scores_of_statements_follow_those_of_states_as_tvm_packs_them(model):
    task = product(16)
    states = SketchPolicy(task, seed=0, verbose=0).sample_initial_population(3)
    scores, packed = model.predict(task, states), model.predict_stages(task, states)
    assert packed[:3] == scores
    at = 3
    for score in scores:
        count = int(packed[at])
        parts = packed[at + 1 : at + 1 + count]
        assert count >= 1
        assert sum(parts) == pytest.approx(score)
        assert all(0 <= part <= score * (1 + 1e-9) for part in parts)
        at += 1 + count
    assert at == len(packed)


def test_a_state_of_no_sketch_that_can_run_is_not_thrown_away():
    task = product()
    state = task.compute_dag.get_init_state()
    state.split(state.stage_ops[-1], state.stages[-1].iters[0], [3, 5])
    works, *_ = trials_of(task, 1)[0]
    model = XGBModel()
    assert model.predict(task, [state])[0] == 0.0
    assert model.predict(task, [works])[0] > 0.0
    with pytest.raises(AutotuneError, match="states"):
        model.predict(task, [5])


def test_random_scores_lie_between_0_and_1_and_teach_nothing():
    task = product()
    states, inputs, results = trials_of(task)
    model = RandomModel()
    model.update(inputs, results)
    assert all(0 <= score <= 1 for score in model.predict(task, states))


def test_the_errors_on_what_was_learned_are_logged(caplog):
    task = product()
    _, inputs, results = trials_of(task)
    with caplog.at_level(logging.DEBUG, "auto_scheduler"):
        XGBModel(verbose_eval=0).update(inputs, results)
        assert "rmse" not in caplog.text
        XGBModel().update(inputs, results)
    (line,) = [record.message for record in caplog.records if "rmse" in record.message]
    named = dict(part.split(": ") for part in line.split("\t")[1:])
    assert list(named) == ["tr-p-rmse", "tr-w-rmse", "tr-a-peak@32"]
    assert float(named["tr-p-rmse"]) < 0.2
    assert float(named["tr-a-peak@32"]) == 1.0


def test_failures_alone_can_be_learned_from(caplog):
    task = product()
    states, inputs, _ = trials_of(task, 3)
    failed = [MeasureResult((), 4, 0.1, 0.0, "no") for _ in states]
    model = XGBModel()
    with caplog.at_level(logging.DEBUG, "auto_scheduler"):
        model.update(inputs, failed)
    assert "3 trials, all failed" in caplog.text
    assert len(model.predict(task, states)) == 3


@pytest.mark.parametrize("name", ["adaptive_training", "adapative_training"])
def test_a_model_that_adapts_trains_when_there_are_a_fifth_more_trials(name, caplog):
    """TVM 0.8 spells it the second way."""
    task = product()
    _, inputs, results = trials_of(task, 24)
    model = XGBModel(**{name: True})
    with caplog.at_level(logging.DEBUG, "auto_scheduler"):
        for first, last in ((0, 20), (20, 22), (22, 24)):
            model.update(inputs[first:last], results[first:last])
    assert caplog.text.count("tr-p-rmse") == 2
    assert model.count == 24, "what it does not train on it knows all the same"


def test_the_file_of_a_model_is_written_as_it_learns_and_is_not_read(tmp_path):
    task = product()
    _, inputs, results = trials_of(task, 24)
    file = tmp_path / "model.json"
    for count in (12, 24):
        model = XGBModel(model_file=str(file))
        assert model.count == 0
        model.update(inputs[:count], results[:count])
        kept = XGBModel()
        kept.load(file)
        assert len(kept.trials(task)) == count


def test_trials_of_other_workloads_in_a_log_teach_if_these_are_registered(tmp_path):
    small, large = product(64, "cuda -arch=sm_90"), product(128, "cuda -arch=sm_90")
    _, inputs, results = trials_of(small)
    save_records(str(tmp_path / "log.json"), inputs, results)

    def similar():
        model = XGBModel()
        model.update_from_file(tmp_path / "log.json")
        policy = SketchPolicy(large, model, seed=0, verbose=0)
        return policy.proposer.member.elites()

    assert similar()
    workload_registry.WORKLOAD_FUNC_REGISTRY.clear()
    assert not similar()


def test_the_scheduler_of_tasks_hands_its_settings_to_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.tuner.loop.finalists.CLOSE", 0.0)  # no race
    tasks = [product(4, "c"), product(6, "c")]
    scheduler = TaskScheduler(tasks, load_model_file=tmp_path / "model.json", callbacks=[])
    model = scheduler._model("default", True)
    assert model.adaptive_training
    assert model.model_file == tmp_path / "model.json"
    options = TuningOptions(4, 0, 2, 0, measure_callbacks=[RecordToFile(tmp_path / "log.json")])
    scheduler.tune(options)
    policies = [each.policy for each in scheduler.progress]
    assert policies[0].program_cost_model is policies[1].program_cost_model


def test_the_graph_of_a_model_is_the_one_it_learned_of():
    task = product()
    states, inputs, results = trials_of(task)
    model = XGBModel(seed=0)
    model.update(inputs, results)
    same = SearchTask(compute_dag=ComputeDAG(matmul(32, 32, 32)), target="llvm")
    assert len(model.trials(task)) == len(states)
    assert not model.trials(same), "it has another key"
