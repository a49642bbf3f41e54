"""What a view tells: charts, filters, table, failures, timeline, importance and the roofline."""

import itertools
import json
import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.dashboard import Model, View
from autotune.dashboard.downsampling import FASTEST, improvements, thin
from autotune.dashboard.importance import importance
from autotune.errors import RecordError
from autotune.record import load_from_file
from autotune.record.pareto import pareto_front
from tests.dashboard.rows import ILLEGAL, log, row, run


def model_of(tmp_path, *logs):
    model = Model([log(tmp_path / f"{i}.log", rows) for i, rows in enumerate(logs)])
    model.read()
    return model


def test_every_trial_is_a_point_with_its_choices(tmp_path):
    rows = run(30)
    view = model_of(tmp_path, rows).view(View())
    points = view["points"]
    assert view["total"] == view["matching"] == view["shown"] == 30
    for i, one in enumerate(rows):
        good = not one["result"][1]
        assert points["seconds"][i] == (pytest.approx(one["result"][0][0]) if good else None)
        assert points["error"][i] == one["result"][1]
        for knob, codes in zip(view["knobs"], points["knobs"], strict=True):
            value = {k: v for k, _, v in one["config"]["entity"]}[knob["name"]]
            assert json.loads(knob["labels"][codes[i]]) == value


def test_values_of_a_knob_are_in_the_order_of_their_size(tmp_path):
    view = model_of(tmp_path, run(60)).view(View())
    knobs = {one["name"]: one["labels"] for one in view["knobs"]}
    assert knobs["unroll"] == ["0", "512", "1500"]
    assert knobs["tile"] == [f"[-1,{size}]" for size in (1, 2, 4, 8, 16)]


def test_the_curve_of_the_best_is_of_all_trials_that_match(tmp_path):
    rows = run(50)
    best, found = math.inf, []
    for i, one in enumerate(rows):
        if not one["result"][1] and one["result"][0][0] < best:
            best = one["result"][0][0]
            found.append(i + 1)
    view = model_of(tmp_path, rows).view(View(points=5))
    assert view["best"][0]["trial"] == found
    assert view["best"][0]["last_trial"] == 50


def test_filters_leave_what_they_name(tmp_path):
    model = model_of(tmp_path, run(80), run(40, seed=2))
    first, second = model.view(View())["runs"]
    assert model.view(View(runs=frozenset({second["id"]})))["matching"] == 40
    assert model.view(View(errors=frozenset({0})))["matching"] == first["ok"] + second["ok"]
    devices = model.view(View(devices=frozenset({1})))
    assert set(devices["points"]["device"]) == {1}
    knobs = model.view(View(knobs={"unroll": frozenset({"0", "512"})}))
    at = [one["name"] for one in knobs["knobs"]].index("unroll")
    assert {knobs["knobs"][at]["labels"][c] for c in knobs["points"]["knobs"][at]} == {"0", "512"}
    timed = model.view(View(seconds=(0, 2e-4)))
    assert all(s is None or s <= 2e-4 for s in timed["points"]["seconds"])
    assert model.view(View(knobs={"unroll": frozenset({"7"})}))["matching"] == 0


def test_runs_on_other_targets_stand_side_by_side(tmp_path):
    model = model_of(tmp_path, run(5), run(5, target="cuda -arch=sm_80"), run(5, task="other"))
    assert [one["runs"] for one in model.overview()["workloads"]] == [2, 1]


def test_the_table_is_sorted_whole_and_told_in_parts(tmp_path):
    model = model_of(tmp_path, run(120))
    rows = model.table(View(sort="seconds", descending=False, rows=500))["rows"]
    times = [one["seconds"] for one in rows]
    known = [one for one in times if one is not None]
    assert known == sorted(known)
    assert times[: len(known)] == known
    part = model.table(View(sort="seconds", descending=False, offset=10, rows=7))
    assert part["rows"] == rows[10:17]
    assert part["total"] == 120
    knob = model.table(View(sort="knob:tile", rows=500))["rows"]
    sizes = [json.loads(one["config"]["tile"])[1] for one in knob]
    assert sizes == sorted(sizes, reverse=True)


def test_failures_are_counted_by_kind_with_every_text(tmp_path):
    rows = [row(0), row(1, error=4, message=ILLEGAL), row(2, error=4, message=ILLEGAL),
            row(3, error=4, message="other\nwords"), row(4, error=7)]  # fmt: skip
    crash, hang = model_of(tmp_path, rows).view(View())["failures"]
    assert (crash["kind"], crash["count"]) == ("RUNTIME_DEVICE", 3)
    first = crash["texts"][0]
    assert (first["text"], first["count"], first["trial"], first["line"]) == (ILLEGAL, 2, 2, 2)
    assert crash["texts"][1]["text"] == "other\nwords"
    assert hang["kind"] == "RUN_TIMEOUT"
    assert "does not say" in hang["texts"][0]["text"]


def test_equal_texts_of_several_runs_are_one(tmp_path):
    rows = [row(0, error=4, message=ILLEGAL)]
    (kind,) = model_of(tmp_path, rows, rows).view(View())["failures"]
    assert kind["count"] == 2
    assert [one["count"] for one in kind["texts"]] == [2]


def test_the_timeline_has_no_two_bars_at_once_on_one_builder(tmp_path):
    timeline = model_of(tmp_path, run(60)).view(View())["timeline"]
    kinds = {one["what"] for one in timeline["bars"]}
    assert kinds == {"build", "run"}
    assert {n for n in timeline["lanes"] if n.startswith("device")} == {"device 0", "device 1"}
    for lane, name in enumerate(timeline["lanes"]):
        if name.startswith("builder"):
            bars = sorted((b["from"], b["to"]) for b in timeline["bars"] if b["lane"] == lane)
            assert all(b[1] <= c[0] + 2e-3 for b, c in itertools.pairwise(bars))
    assert timeline["idle"] == {"builder": pytest.approx(0.5), "device": pytest.approx(0.1)}


def test_a_log_that_does_not_say_when_it_built_has_bars_of_whole_trials(tmp_path):
    timeline = model_of(tmp_path, [row(i) for i in range(5)]).view(View())["timeline"]
    assert {one["what"] for one in timeline["bars"]} == {"trial"}
    assert timeline["idle"]["builder"] is None


def test_the_knob_that_matters_is_found(tmp_path):
    model = model_of(tmp_path, run(300))
    model.compute_importance(0)
    told = model.view(View())["importance"]
    assert next(iter(told["shares"])) == "tile"
    assert told["shares"].get("plain", 0) == 0
    assert told["explained"] > 0.5
    assert sum(told["shares"].values()) == pytest.approx(1, abs=1e-3)


def test_noise_has_no_important_knob():
    rng = np.random.default_rng(0)
    codes = {"knob": rng.integers(0, 4, 400).astype(np.int32)}
    found = importance(rng.lognormal(size=400), codes, {"knob": ["1", "2", "3", "4"]})
    assert found.shares == {}
    assert found.trials == 400


def test_the_roofline_tells_what_trials_are_compared_with(tmp_path):
    view = model_of(tmp_path, run(5), run(5, task="other")).view(View())["roofline"]
    assert view["roofs"][0]["flops"] == 1e12
    assert len(view["others"]) == 1


times = st.lists(st.one_of(st.just(math.nan), st.floats(1e-6, 1)), min_size=1, max_size=800)


def test_the_front_of_time_and_energy_is_that_of_the_records_also_where_charts_are_thinned(
    tmp_path,
):
    rows = run(400, energy=True)
    model = model_of(tmp_path, rows, run(30, seed=1))
    view = model.view(View(points=5))
    (front,) = view["fronts"]
    paths = [tmp_path / "0.log"]
    records = [pair for path in paths for pair in load_from_file(path)]
    wanted = pareto_front(records)
    assert len(wanted) > 1
    assert front["run"] == view["runs"][0]["id"]
    assert front["known"] == sum("energy" in one for one in rows)
    assert front["seconds"] == pytest.approx([one.seconds for _, one in wanted], rel=1e-6)
    assert front["joules"] == pytest.approx([one.joules for _, one in wanted], rel=1e-6)
    assert [rows[n - 1]["config"]["index"] for n in front["trial"]] == [
        inp.config.index for inp, _ in wanted
    ]


def test_trials_that_a_filter_leaves_out_are_on_no_front(tmp_path):
    view = model_of(tmp_path, run(200, energy=True)).view(View(devices=frozenset({1})))
    (front,) = view["fronts"]
    assert all(trial % 2 == 0 for trial in front["trial"])


def test_a_log_without_energy_has_no_front_and_no_column_for_it(tmp_path):
    view = model_of(tmp_path, run(20)).view(View())
    assert view["fronts"] == []
    assert view["points"]["joules"] == []


@given(times, st.integers(1, 3), st.integers(10, 900))
def test_thinning_loses_no_improvement_nor_a_kind_of_failure(values, runs, most):
    seconds = np.array(values)
    run = np.sort(np.arange(len(values)) % runs).astype(np.int32)
    text = np.where(np.isnan(seconds), np.arange(len(values)) % 2, -1)
    kept = set(thin(seconds, run, text, most).tolist())
    for one in range(runs):
        places = np.flatnonzero(run == one)
        assert kept >= set(places[improvements(seconds[places])].tolist())
    assert not np.isfinite(seconds).any() or int(np.nanargmin(seconds)) in kept
    for failure in (0, 1):
        where = np.flatnonzero(text == failure)
        if len(where) and most >= 8:
            assert kept & set(where.tolist())
    bound = most + FASTEST + 2 * runs + len(values) // 4 + len(improvements(seconds)) * runs
    assert len(kept) <= max(bound, most)


def test_a_hundred_thousand_points_become_few_with_the_fastest_among_them():
    rng = np.random.default_rng(1)
    seconds = rng.lognormal(size=100_000)
    seconds[rng.random(100_000) < 0.3] = math.nan
    text = np.where(np.isnan(seconds), rng.integers(0, 9, 100_000), -1)
    kept = thin(seconds, np.zeros(100_000, np.int32), text, 4000)
    assert len(kept) <= 4010
    assert set(np.argsort(seconds)[:FASTEST]) <= set(kept)
    share = np.isnan(seconds[kept]).mean()
    assert 0.2 < share < 0.4


WRONG = [
    3, [], {"workload": -1}, {"workload": True}, {"workload": "0"}, {"runs": 3}, {"runs": ["a"]},
    {"errors": [[1]]}, {"knobs": []}, {"knobs": {"a": 1}}, {"knobs": {"a": [1]}},
    {"seconds": [1]}, {"seconds": ["a", None]}, {"sort": "x" * 2000}, {"offset": 1.5},
    {"runs": list(range(5000))}, {"seconds": [float("nan"), None]}, {"timeline_end": -1},
]  # fmt: skip


@pytest.mark.parametrize("asked", WRONG, ids=str)
def test_a_view_that_makes_no_sense_is_refused(asked):
    with pytest.raises(RecordError):
        View.from_json(asked)


def test_a_view_of_nothing_is_empty_and_not_an_error(tmp_path):
    model = model_of(tmp_path, [])
    assert model.overview()["workloads"] == []
    assert model.view(View(workload=7))["points"]["trial"] == []
    assert model.table(View(sort="knob:none"))["rows"] == []
    assert not model.wants_importance(3)


names = st.sampled_from(["workload", "runs", "knobs", "seconds", "sort"])
plain = st.none() | st.booleans() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(anything)
def test_whatever_is_asked_is_a_view_or_refused(asked):
    with suppress(RecordError):
        assert View.from_json(asked).key
