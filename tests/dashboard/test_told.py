"""What a view says is what the log holds: winners, times, pauses, long values, odd numbers."""

import json

import pytest

from autotune.dashboard import Model, View, one_file
from autotune.dashboard.export import pieces
from autotune.dashboard.hub import Hub
from autotune.dashboard.runs import PAUSE_S
from tests.dashboard.rows import log, race, row, run


def model_of(tmp_path, *logs, note=""):
    paths = [log(tmp_path / f"{i}.log", rows, note) for i, rows in enumerate(logs)]
    model = Model(paths)
    model.read()
    return model


def exported(model, kind, view=None):
    return "".join(pieces(model, view or View(), kind))


def test_what_json_has_no_number_for_is_told_as_its_text(tmp_path):
    rows = [row(0), row(1, 1e-5, knobs={"lanes": float("nan")})]
    model = model_of(tmp_path, rows)
    told = json.loads(Hub(model).view(View()))
    assert told["winners"][0]["config"] == {"lanes": "nan"}
    assert "nan" in one_file(model.report(), "x")
    assert json.loads(exported(model, "json"))[0]["config"] == {"lanes": "NaN"}


def test_the_best_time_is_told_with_the_trial_of_its_configuration(tmp_path):
    rows = [row(7, 3e-5), row(8, 1e-5), row(9, 1.05e-5)]
    winner = {**rows[2], "result": [[1.01e-5], 0, 1, 1.7e9]}
    (one,) = model_of(tmp_path, rows, note=race(winner, [rows[1]])).view(View())["runs"]
    assert one["best_seconds"] == pytest.approx(1.01e-5)
    assert one["best_trial"] == 3
    (one,) = model_of(tmp_path, rows).view(View())["runs"]
    assert one["best_trial"] == 2


def test_the_speedup_of_a_task_is_that_of_the_run_with_the_best(tmp_path):
    slow, fast = [row(0, 40e-6), row(1, 20e-6)], [row(0, 100e-6), row(1, 10e-6)]
    paths = [log(tmp_path / f"{i}.log", r, race(r[1], [r[0]])) for i, r in enumerate((slow, fast))]
    model = Model(paths)
    model.read()
    (task,) = model.overview()["workloads"]
    assert task["default_seconds"] / task["best_seconds"] == pytest.approx(10)


def test_time_that_was_spent_leaves_out_the_pause_of_a_run_that_was_resumed(tmp_path):
    later = 1.7e9 + 86_400
    rows = [row(i, end=1.7e9 + i) for i in range(5)]
    rows += [row(i, end=later + i) for i in range(5, 10)]
    view = model_of(tmp_path, rows).view(View())
    (one,) = view["runs"]
    assert one["pauses"] == 1
    assert 8 < one["spent"] < 20
    assert max(view["points"]["time"]) == one["spent"]
    short = [row(0, end=1.7e9), row(1, end=1.7e9 + PAUSE_S)]
    (one,) = model_of(tmp_path, short).view(View())["runs"]
    assert (one["pauses"], one["spent"]) == (0, pytest.approx(PAUSE_S + 1.5))


def test_long_values_stay_apart_and_are_exported_whole(tmp_path):
    long = ["v" * 500 + str(i) for i in range(40)]
    rows = [row(i, knobs={"flags": one}) for i, one in enumerate(long)]
    model = model_of(tmp_path, rows)
    labels = model.view(View())["knobs"][0]["labels"]
    assert len(set(labels)) == 40
    assert max(map(len, labels)) < 220
    assert model.view(View(knobs={"flags": frozenset(labels[:3])}))["matching"] == 3
    for kind in ("csv", "json"):
        assert all(one in exported(model, kind) for one in long)


def test_values_that_are_left_out_are_named_and_all_others_stay(tmp_path):
    model = model_of(tmp_path, [row(i, knobs={"k": i}) for i in range(100)])
    view = View.from_json({"without": {"k": ["3", "70"]}})
    assert model.view(view)["matching"] == 98
    assert view.filtered
    assert view.key != View().key


def test_a_report_of_many_tasks_grows_as_its_log_does(tmp_path):
    def size(tasks):
        rows = [one for i in range(tasks) for one in run(3, seed=i, task=f"task{i}")]
        return len(one_file(model_of(tmp_path, rows).report(), "x"))

    empty, some, many = size(0), size(8), size(32)
    assert many - empty < 5 * (some - empty)


def test_importance_is_of_knobs_and_not_of_devices(tmp_path):
    slow = run(150, seed=3, target="cuda -model=slow")
    for one in slow:
        one["result"][0] = [cost * 40 for cost in one["result"][0]]
    model = model_of(tmp_path, run(150), slow)
    model.compute_importance(0)
    assert model.view(View())["importance"]["explained"] > 0.8


def test_an_interval_of_one_sample_is_none(tmp_path):
    cut = row(0, ci95=[1e-3, 1e-3], samples=1, cut_short=True)
    (winner,) = model_of(tmp_path, [cut]).view(View())["winners"]
    assert winner["ci95"] is None


def test_logs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    paths = [tmp_path / part / "run.log" for part in ("old/a", "new/a", "b")]
    for path in paths:
        path.parent.mkdir(parents=True)
        log(path, [row(0)])
    model = Model([*paths, log(tmp_path / "other.log", [row(0)])])
    model.read()
    names = [one["name"] for one in model.overview()["logs"]]
    assert names == ["old/a/run.log", "new/a/run.log", "b/run.log", "other.log"]
    assert model.table(View(sort="run"))["rows"][0]["log"] == "other.log"


@pytest.mark.parametrize("target", ["rocm -model=mi250x", "opencl -device=mali", "vulkan"])
def test_logs_of_targets_that_nothing_is_built_for_here_are_shown(tmp_path, target):
    model = model_of(tmp_path, run(30, target=target))
    (winner,) = model.view(View())["winners"]
    assert winner["source"] == ""
    assert winner["target"].startswith(target.split()[0])
    assert one_file(model.report(), "x")
