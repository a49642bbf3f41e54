"""A list of schedules of a te graph is tuned, raced, logged and resumed as a template is."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import Future  # noqa: F401 - scripts below find it here

import numpy as np
import pytest

import autotune
from autotune.errors import RecordError, SpaceError, TunerError
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, measure_option
from autotune.record import (
    DummyDatabase,
    SqliteDatabase,
    best_of,
    decode,
    encode,
    filter_inputs,
    is_race,
    load_from_file,
)
from autotune.target import Target
from autotune.te.step import ComputeRoot
from autotune.tuner import RandomTuner, Tuner, callback
from autotune.workload import GraphWorkload, ScheduleSteps
from tests.workload.test_measured import product_graph, tiled

FACTORS = (2, 4, 8, 16)


class InOrder(Tuner):
    """Tries given candidates one after another."""

    def __init__(self, workload, candidates):
        super().__init__(workload)
        self.left = list(candidates)
        self.seen = []

    def has_next(self):
        return bool(self.left)

    def next_batch(self, batch_size):
        batch, self.left = self.left[:batch_size], self.left[batch_size:]
        return batch

    def update(self, inputs, results):
        self.seen += [inp.key for inp in inputs]
        measured = set(self.seen)
        self.left = [one for one in self.left if one.key not in measured]


def local():
    return measure_option(LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=3))


@pytest.fixture
def workload():
    return GraphWorkload(product_graph(48), Target("c"), "product")


def candidates(workload):
    return [ScheduleSteps(()), *(tiled(workload.tensors, n) for n in FACTORS)]


def twins(workload):
    """Return two candidates of the same code, which race at the end of a run."""
    first = tiled(workload.tensors, 8)
    as_it_is_already = ComputeRoot(first.steps[0].stage)
    return [first, ScheduleSteps((*first.steps, as_it_is_already))]


def test_a_list_of_schedules_is_tuned_raced_and_kept(workload, tmp_path):
    log, tried = tmp_path / "steps.log", candidates(workload)
    result = InOrder(workload, tried).tune(
        len(tried), local(), callbacks=[callback.log_to_file(log)]
    )
    assert result.best_config in tried
    assert result.trials == len(tried)
    assert result.default_seconds is not None  # the plain schedule ran in the race, or was tried
    assert f"product on {workload.target}" in str(result)
    pairs = list(load_from_file(log, races=True))
    assert [inp.config for inp, res in pairs if not is_race(res)] == tried
    assert all(inp.task == workload for inp, _ in pairs)
    assert all(res.extra["verified"] for _, res in pairs)
    best = best_of(pairs)
    assert best[0].key == result.best_config.key


def test_the_best_of_a_log_replays_to_the_kernel_that_was_measured(workload, tmp_path):
    log, tried = tmp_path / "steps.log", candidates(workload)
    InOrder(workload, tried).tune(len(tried), local(), callbacks=[callback.log_to_file(log)])
    inp, _ = best_of(load_from_file(log, races=True))
    schedule, args = workload.realise(inp.config).what
    kernel = autotune.build(schedule, args, target="c")
    a, b = np.random.default_rng(0).random((2, 48, 48)).astype("float32")
    c = np.zeros((48, 48), "float32")
    kernel(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    with pytest.raises(autotune.AutotuneError, match="make the GraphWorkload"):
        inp.task.realise(inp.config)


def test_what_a_log_holds_is_not_measured_again(workload, tmp_path):
    log, tried = tmp_path / "steps.log", candidates(workload)
    InOrder(workload, tried[:3]).tune(3, local(), callbacks=[callback.log_to_file(log)])
    again = InOrder(workload, tried)
    result = again.tune(5, local(), callbacks=[callback.log_to_file(log)], resume=log)
    assert result.resumed == 3
    trials = [inp.key for inp, _ in load_from_file(log)]
    assert trials == [one.key for one in tried]
    assert sorted(again.seen) == sorted(trials)


def test_records_of_another_graph_are_not_resumed_from(workload, tmp_path):
    log = tmp_path / "steps.log"
    other = GraphWorkload(product_graph(16), Target("c"), "product")
    InOrder(other, candidates(other)[:2]).tune(2, local(), callbacks=[callback.log_to_file(log)])
    result = InOrder(workload, candidates(workload)[:2]).tune(2, local(), resume=log)
    assert result.resumed == 0


def test_a_record_of_other_computes_is_older(workload, tmp_path, caplog):
    log = tmp_path / "steps.log"
    tried = candidates(workload)[:2]
    InOrder(workload, tried).tune(2, local(), callbacks=[callback.log_to_file(log)], finalists=0)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    rows[0]["kernel_hash"] = "0" * 16
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = InOrder(workload, tried).tune(2, local(), resume=log)
    assert result.resumed == 1
    assert "1 record is of an older kernel text" in caplog.text


KILLED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from tests.workload.test_tuned import *
workload = GraphWorkload(product_graph(48), Target("c"), "product")
def kill(tuner, inputs, results):
    if len(tuner.seen) >= 2:
        os.kill(os.getpid(), signal.SIGKILL)
kill.at_once = True
InOrder(workload, candidates(workload)).tune(
    5, local(), callbacks=[callback.log_to_file({log!r}), kill], reproducible=False)
"""


def test_a_run_that_was_killed_goes_on_where_it_was(workload, tmp_path):
    log = str(tmp_path / "steps.log")
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    script = textwrap.dedent(KILLED).format(root=root, log=log)
    ended = subprocess.run([sys.executable, "-c", script], timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    before = [inp.key for inp, _ in load_from_file(log)]
    assert 2 <= len(before) < 5
    again = InOrder(workload, candidates(workload))
    result = again.tune(5, local(), callbacks=[callback.log_to_file(log)], resume=log)
    assert result.resumed == len(before)
    keys = [inp.key for inp, _ in load_from_file(log)]
    assert keys[: len(before)] == before
    assert len(keys) == len(set(keys)) == 5


DATABASE = """
import os, signal, sys
sys.path.insert(0, {root!r})
from tests.workload.test_tuned import *
from autotune.record import SqliteDatabase
workload = GraphWorkload(product_graph(48), Target("c"), "product")
class HeldUp(LocalRunner):  # the first trial never ends; all others do
    def submit(self, inp, built):
        if inp.key == ScheduleSteps(()).key:
            return Future()
        return super().submit(inp, built)
ended = []
def kill(tuner, inputs, results):
    ended.extend(inputs)
    if len(ended) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
kill.at_once = True
option = measure_option(LocalBuilder(n_parallel=1), HeldUp(number=1, repeat=3))
saved = callback.log_to_database(SqliteDatabase({db!r}))
InOrder(workload, candidates(workload)).tune(5, option, callbacks=[saved, kill])
"""


def test_a_database_has_all_trials_that_ended_before_a_kill(workload, tmp_path):
    path = str(tmp_path / "trials.db")
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    script = textwrap.dedent(DATABASE).format(root=root, db=path)
    ended = subprocess.run([sys.executable, "-c", script], timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    inputs = [MeasureInput(workload.target, workload, one) for one in candidates(workload)]
    db = SqliteDatabase(path)
    assert filter_inputs(db, inputs) == [inputs[0], *inputs[3:]]
    db.close()


def test_a_database_sees_the_race(workload):
    db, tried = DummyDatabase(), twins(workload)
    result = InOrder(workload, tried).tune(
        len(tried), local(), callbacks=[callback.log_to_database(db)]
    )
    winner = MeasureInput(workload.target, workload, result.best_config)
    *trials, race = db.load(winner, get_all=True)
    assert is_race(race)
    # On a busy machine the plain schedule may win, which was no trial.
    assert [is_race(one) for one in trials] == [False] * (result.best_config in tried)
    assert race.seconds == result.seconds
    assert db.load(winner) == race


class Unfit(LocalRunner):
    """Shares its device with others, so that nothing timed on it tells near ties apart."""

    can_race = False


def test_a_runner_says_whether_trials_race_on_it(workload):
    option = measure_option(LocalBuilder(n_parallel=1), Unfit(number=1, repeat=3))
    tuner = InOrder(workload, twins(workload))
    tuner.tune(2, option)
    assert not is_race(tuner.best_measure_pair[1])


def test_a_trial_of_steps_comes_back_from_its_row(workload, tmp_path):
    steps = tiled(workload.tensors, 8)
    inp = MeasureInput(workload.target, workload, steps)
    result = autotune.measure.MeasureResult((1e-3,), 0, 0.5, 1.0, extra={"verified": True})
    again, res = decode(encode(inp, result))
    assert (again.target, again.task, again.config, again.key) == (*inp, steps.key)
    assert res == result
    db = DummyDatabase()
    db.save(inp, result)
    assert db.load(again) == result
    other = MeasureInput(workload.target, workload, tiled(workload.tensors, 4))
    assert filter_inputs(db, [inp, other]) == [other]


@pytest.mark.parametrize(
    "change",
    [
        {"graph": ["c", "product"]},
        {"graph": ["c", "product", 7]},
        {"graph": ["c", "pro\nduct", "graph-0"]},
        {"steps": [["no such step", 0]]},
        {"steps": 5},
        {"result": [[], 0, 1, 1]},
    ],
)
def test_a_row_of_steps_that_is_damaged_is_no_record(workload, change):
    inp = MeasureInput(workload.target, workload, tiled(workload.tensors, 8))
    row = json.loads(encode(inp, autotune.measure.MeasureResult((1e-3,), 0, 0.5, 1.0)))
    with pytest.raises(RecordError):
        decode(json.dumps({**row, **change}))


def test_tuners_of_knobs_say_that_they_need_a_space(workload):
    with pytest.raises(TunerError, match="a task with a space"):
        RandomTuner(workload)


def test_what_has_no_form_in_a_log_is_refused(workload):
    class Odd:
        key = "odd"

    inp = MeasureInput(workload.target, workload, Odd())
    with pytest.raises(RecordError, match="no log has a form"):
        encode(inp, autotune.measure.MeasureResult((1e-3,), 0, 0.5, 1.0))
    with pytest.raises(SpaceError, match="ScheduleSteps"):
        workload.own(Odd())
