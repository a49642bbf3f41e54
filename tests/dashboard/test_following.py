"""A log is followed while it grows, is torn, replaced, cut short, removed and written anew."""

import json
import os

import pytest

from autotune.dashboard import Model, View
from autotune.dashboard.tail import LONGEST_LINE
from tests.dashboard.rows import log, race, row, run, text


def seen(model):
    while model.poll():
        pass
    overview = model.overview()
    return [one["trials"] for one in overview["logs"]]


def test_what_is_appended_is_seen(tmp_path):
    path = log(tmp_path / "a.log", run(3))
    model = Model([path])
    assert seen(model) == [3]
    before = model.revision
    assert seen(model) == [3]
    assert model.revision == before
    with path.open("a") as file:
        file.write(text(run(2, seed=1)))
    assert seen(model) == [5]
    assert model.revision > before


def test_half_a_line_waits_for_its_other_half(tmp_path):
    whole = text([row(0), row(1)])
    path = tmp_path / "a.log"
    model = Model([path])
    assert seen(model) == [0]
    for cut in range(1, len(whole), 97):
        path.write_text(whole[:cut])
        model = Model([path])
        assert seen(model)[0] == whole[:cut].count("\n")
        with path.open("a") as file:
            file.write(whole[cut:])
        assert seen(model) == [2]
        assert model.overview()["logs"][0]["unreadable"] == 0


def test_a_last_record_that_lacks_only_its_newline_counts_once(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(text([row(0), row(1)]).rstrip("\n"))
    model = Model([path])
    assert seen(model) == [2]
    with path.open("a") as file:
        file.write("\n" + text([row(2)]))
    assert seen(model) == [3]
    assert model.table(View(sort="trial", descending=False))["rows"][2]["line"] == 3


def test_a_line_that_a_killed_writer_left_costs_that_line(tmp_path):
    path = log(tmp_path / "a.log", [row(0)])
    with path.open("a") as file:
        file.write(text([row(1)])[:50] + "\n" + text([row(2)]))
    model = Model([path])
    assert seen(model) == [2]
    told = model.overview()["logs"][0]
    assert told["unreadable"] == 1
    assert told["problems"][0]["line"] == 2


def edit(index, seconds, hashed, end):
    return row(index, seconds, end=end, kernel_hash=hashed)


def test_the_best_is_of_the_latest_text_of_a_kernel_as_it_is_edited(tmp_path):
    path = log(tmp_path / "a.log", [edit(0, 1e-6, "aa", 1), edit(1, 2e-6, "a1", 2)])
    model = Model([path])
    steps = [
        (edit(0, 6e-6, "bb", 3), 2e-6, 1),
        (edit(1, 7e-6, "b1", 4), 6e-6, 2),
        (edit(1, 5e-6, "b1", 5), 5e-6, 2),
        (edit(0, 8e-6, "aa", 6), 1e-6, 2),
    ]
    for new, best, older in steps:
        seen(model)
        with path.open("a") as file:
            file.write(text([new]))
        seen(model)
        (told,), (one,) = (model.overview()[part] for part in ("logs", "workloads"))
        assert (one["best_seconds"], told["restarts"]) == (pytest.approx(best), 0)
        fresh = Model([path])
        fresh.read()
        (told,), (other,) = (fresh.overview()[part] for part in ("logs", "workloads"))
        assert (told["older"], other["best_seconds"]) == (older, one["best_seconds"])
    assert [one["id"] for one in model.view(View())["runs"]] == [0]


def test_a_last_record_without_a_newline_replaces_an_older_text(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(text([edit(0, 1e-6, "aa", 1), edit(0, 2e-6, "bb", 2)]).rstrip("\n"))
    model = Model([path])
    assert seen(model) == [1]
    with path.open("a") as file:
        file.write("\n" + text([row(2)]))
    assert seen(model) == [2]


def test_a_log_that_was_replaced_or_cut_is_read_anew(tmp_path):
    path = log(tmp_path / "a.log", run(5))
    model = Model([path])
    assert seen(model) == [5]
    os.replace(log(tmp_path / "b.log", run(3)), path)  # as compact does, and logrotate
    assert seen(model) == [3]
    path.write_text("")
    assert seen(model) == [0]
    path.write_text(text(run(2)))
    assert seen(model) == [2]
    assert model.overview()["logs"][0]["restarts"] == 2


def test_a_log_rewritten_longer_than_before_is_known_as_another(tmp_path):
    path = log(tmp_path / "a.log", run(2))
    model = Model([path])
    assert seen(model) == [2]
    with path.open("r+") as file:  # the same file, other content
        file.write(text(run(6, seed=9)))
    assert seen(model) == [6]


def test_a_missing_log_is_waited_for_and_a_lost_one_keeps_what_was_seen(tmp_path):
    path = tmp_path / "later.log"
    model = Model([path])
    assert seen(model) == [0]
    assert model.overview()["logs"][0]["state"] == "missing"
    log(path, run(2))
    assert seen(model) == [2]
    path.unlink()
    assert seen(model) == [2]
    assert model.overview()["logs"][0]["state"] == "missing"


def test_what_is_no_file_is_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    model = Model([tmp_path / "pipe", tmp_path])
    assert seen(model) == [0, 0]
    assert [one["state"] for one in model.overview()["logs"]] == ["no file"] * 2


def test_a_line_without_an_end_takes_no_memory_without_an_end(tmp_path):
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.write(b"{" * (LONGEST_LINE + 1000))
        file.write(b"\n" + text([row(0)]).encode())
    model = Model([path])
    assert seen(model) == [1]
    assert model.overview()["logs"][0]["unreadable"] == 1


def test_a_long_log_is_read_in_parts(tmp_path):
    path = log(tmp_path / "a.log", run(4000))
    model = Model([path])
    parts = 0
    while model.poll(budget_s=0):
        parts += 1
    assert parts > 0
    assert seen(model) == [4000]


def test_the_winner_of_a_race_stands_above_faster_trials(tmp_path):
    rows = run(40)
    good = sorted((r for r in rows if not r["result"][1]), key=lambda r: r["result"][0][0])
    path = log(tmp_path / "a.log", rows, race(good[1], [good[0], good[-1]]))
    model = Model([path])
    assert seen(model) == [40]
    (winner,) = model.view(View())["winners"]
    assert winner["key"] == str(good[1]["config"]["index"])
    assert winner["race"]["default"] == str(good[-1]["config"]["index"])
    assert winner["race"]["candidates"][0]["ci95"]
    default = model.overview()["workloads"][0]["default_seconds"]
    assert default == pytest.approx(good[-1]["result"][0][0])


def test_logs_of_the_auto_scheduler_give_a_table_of_tasks(data):
    model = Model([data / "auto_scheduler" / "resnet-18-NHWC-B1-cuda.json"])
    model.read()
    overview = model.overview()
    assert len(overview["workloads"]) == 24
    assert {one["kind"] for one in overview["workloads"]} == {"auto_scheduler"}
    view = model.view(View(workload=0))
    assert view["winners"][0]["seconds"] > 0
    assert any(knob["name"].startswith("split") for knob in view["knobs"])
    json.dumps(model.report(), allow_nan=False)


def test_an_older_trial_that_is_not_the_best_is_left_out_soon_too(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("autotune.dashboard.logs.time.monotonic", lambda: now[0])
    path = log(tmp_path / "a.log", [edit(0, 1e-6, "aa", 1), edit(1, 2e-6, "a1", 2)])
    model = Model([path])
    seen(model)
    with path.open("a") as file:
        file.write(text([edit(1, 3e-6, "b1", 3)]))
    assert seen(model) == [3]
    now[0] = 1.0
    assert seen(model) == [2]
    assert model.overview()["logs"][0]["older"] == 1


def test_a_log_that_is_read_anew_is_shown_as_before_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.dashboard.tail.CHUNK", 1 << 10)
    path = log(tmp_path / "a.log", [edit(i, 1e-6 * (i + 1), "aa", i) for i in range(50)])
    model = Model([path])
    seen(model)
    with path.open("a") as file:
        file.write(text([edit(0, 9e-6, "bb", 60)]))
    counts = set()
    for _ in range(200):
        model.poll(budget_s=0)
        counts.update(one["trials"] for one in model.overview()["logs"])
    assert counts == {50, 51}
    assert model.overview()["workloads"][0]["best_seconds"] == pytest.approx(2e-6)
