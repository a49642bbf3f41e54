"""A workload that was defined anew under its key: records of the older one are not used."""

import json
import logging

import pytest

from autotune import te
from autotune.auto_scheduler import (
    ComputeDAG,
    PreloadMeasuredStates,
    RecordReader,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TaskScheduler,
    TuningOptions,
    XGBModel,
    register_workload,
)
from autotune.auto_scheduler.errors import NoScheduleError
from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.records.resume import measured_states
from autotune.measure.types import MeasureResult

pytestmark = pytest.mark.usefixtures("own_registry")

OK = MeasureResult((1.5e-5,), 0, 1.25, 1700000000.75)


def defined(factor, name="B"):
    def scale(n):
        a = te.placeholder((n, n), name="A")
        return [a, te.compute((n, n), lambda i, j: a[i, j] * factor, name=name)]

    register_workload("scale", f=scale, override=True)
    return SearchTask(func="scale", args=(64,), target="c")


def logged(task, log):
    state = task.compute_dag.get_init_state()
    RecordToFile(log)(None, [MeasureInput(task, state)], [OK])


def test_records_of_an_older_definition_are_ignored_and_counted(tmp_path, caplog):
    log = tmp_path / "log.json"
    logged(defined(2.0), log)
    now = defined(3.0)
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        assert measured_states(now, log) == []
        with pytest.raises(NoScheduleError, match="1 records of an older definition"):
            now.apply_best(log)
        with pytest.raises(NoScheduleError, match="1 records of an older definition"):
            now.apply_best(log, include_compatible=True)
    assert "1 records of an older definition of it were ignored" in caplog.text
    model = XGBModel()
    model.update_from_file(log)
    assert model.trials(now) == []
    assert len(model.trials(defined(2.0))) == 1
    assert SketchPolicy(now, init_search_callbacks=[PreloadMeasuredStates(str(log))]).best is None
    logged(now, log)
    assert len(measured_states(now, log)) == 1
    assert now.apply_best(log)


def test_a_model_that_was_saved_tells_definitions_apart(tmp_path):
    log, file = tmp_path / "log.json", tmp_path / "model.json"
    logged(defined(2.0), log)
    model = XGBModel()
    model.update_from_file(log)
    model.save(file)
    again = XGBModel()
    again.load(file)
    assert again.trials(defined(3.0)) == []
    assert len(again.trials(defined(2.0))) == 1


def test_names_do_not_make_another_definition(tmp_path):
    log = tmp_path / "log.json"
    logged(defined(2.0), log)
    assert len(measured_states(defined(2.0, name="C"), log)) == 1


def test_records_that_do_not_say_their_graph_are_taken_as_they_are(tmp_path):
    log = tmp_path / "log.json"
    logged(defined(2.0), log)
    lines = [each for each in log.read_text().splitlines() if not each.startswith("#")]
    log.write_text("\n".join(lines) + "\n")
    now = defined(3.0)
    assert len(measured_states(now, log)) == 1
    assert now.apply_best(log)


def test_a_record_is_found_by_its_graph_when_every_name_in_its_key_has_changed(tmp_path, caplog):
    log = tmp_path / "log.json"
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="B")
    logged(SearchTask(compute_dag=ComputeDAG([a, b]), target="c"), log)
    renamed, another = defined(2.0, name="C"), defined(3.0, name="B")
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        assert len(measured_states(renamed, log)) == 1
        assert renamed.apply_best(log)
        assert measured_states(another, log) == []
        with pytest.raises(NoScheduleError):
            another.apply_best(log)
    assert "older definition" not in caplog.text


def test_a_scheduler_says_once_that_records_are_of_an_older_definition(tmp_path, caplog):
    log = tmp_path / "log.json"
    logged(defined(2.0), log)
    scheduler = TaskScheduler([defined(3.0)], load_log_file=log, callbacks=[])
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        scheduler.tune(TuningOptions(1, verbose=0), timeout_s=0.0)
    assert caplog.text.count("older definition") == 1


def test_distilling_keeps_what_tells_definitions_apart(tmp_path):
    from autotune.auto_scheduler.measure_record import distill_record_file

    log, best = tmp_path / "log.json", tmp_path / "best.json"
    task = defined(2.0)
    logged(task, log)
    distill_record_file(log, best)
    ((_, result),) = RecordReader(best)
    assert result.extra["graph_hash"] == task.graph_hash
    assert json.loads(best.read_text().splitlines()[0].removeprefix("# with "))
    with pytest.raises(NoScheduleError):
        defined(3.0).apply_best(best)


def test_a_search_without_any_number_to_choose_ends_by_itself():
    policy = SketchPolicy(defined(2.0), XGBModel(), seed=0)
    (state, *_) = policy.propose(4)
    policy.learn([(MeasureInput(policy.task, state), OK)])
    assert all(each.key != state.key for each in policy.propose(4))
