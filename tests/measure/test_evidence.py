"""What is known of a trial: typed inside, the same keys as ever in records and for users."""

import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.measure import MeasureResult
from autotune.measure.evidence import NAMES, NOTHING, Energy, Evidence, Race, RacedCandidate
from autotune.measure.evidence_json import from_json, from_notes, to_json
from autotune.measure.outcome import TrialClock

RACE = {
    "tied": [12, 5],
    "candidates": [
        {
            "index": 12, "seconds": 1e-3, "medians": [1e-3, 2e-3],
            "ci95": [[1.0, 2.0], [1.0, 2.0]],
            "noise_floor": [0.01, None], "samples": [60, 60],
        },
        {"index": 5, "seconds": 1e-3},
        {"key": "steps-00ff", "seconds": 2e-3},
    ],
    "passed_over": [7, "steps-00aa"],
    "trial": 9e-4,
    "default": 5,
}  # fmt: skip

numbers = st.floats(0, 1e9)
counts = st.integers(0, 10**9)
positive = st.floats(1e-9, 1e9)
keys = st.one_of(counts.map(str), st.from_regex(r"steps-[0-9a-f]{4,16}", fullmatch=True))
raced = st.builds(
    RacedCandidate,
    key=keys,
    seconds=st.none() | numbers,
    medians=st.lists(numbers, max_size=2).map(tuple),
    ci95=st.lists(st.tuples(numbers, numbers), max_size=2).map(tuple),
    noise_floor=st.lists(st.none() | numbers, max_size=2).map(tuple),
    samples=st.lists(counts, max_size=2).map(tuple),
)
races = st.builds(
    Race,
    candidates=st.lists(raced, max_size=4).map(tuple),
    tied=st.lists(keys, max_size=3).map(tuple),
    passed_over=st.lists(keys, max_size=3).map(tuple),
    trial=st.none() | st.floats(1e-9, 1e3),
    default=st.none() | keys,
)
maybe = {
    "ci95": st.tuples(numbers, numbers), "noise_floor": numbers, "samples": counts,
    "number": counts, "cut_short": st.booleans(), "verified": st.booleans(),
    "graph": st.booleans(), "preempted": counts, "clock": st.just("cpu"),
    "resources": st.dictionaries(st.text(max_size=5), st.none() | numbers, max_size=3),
    "device_class": st.text(max_size=5),
    "roofline": numbers, "roof": st.tuples(numbers, numbers, numbers, numbers),
    "stages": st.lists(numbers, min_size=3, max_size=4).map(
        lambda ages: tuple(sorted(ages, reverse=True))
    ),
    "device": counts, "calibration": numbers, "same_code_as": keys,
    "kernel_hash": st.text("0123456789abcdef", max_size=16), "race": races,
    "energy": st.builds(
        Energy, joules=positive, watts=st.none() | positive, runs=st.none() | counts,
        seconds=st.none() | positive, at_least=st.none() | positive, meter=st.text(max_size=5),
    ),
    "others": st.dictionaries(st.sampled_from(["mine", "theirs"]), counts, max_size=2),
}  # fmt: skip
evidence = st.builds(lambda given: Evidence(**given), st.fixed_dictionaries({}, optional=maybe))


@given(evidence)
def test_evidence_comes_back_from_json(known):
    assert from_json(json.loads(json.dumps(to_json(known)))) == known


def test_the_keys_of_a_race_are_those_of_before():
    assert to_json(from_json({"race": RACE})) == {"race": RACE}
    race = from_json({"race": RACE}).race
    assert race.keys == {"12", "5", "steps-00ff", "7", "steps-00aa"}
    assert race.seconds_of(race.default) == 1e-3


def test_what_a_later_version_writes_into_a_race_is_kept():
    later = {"rounds": [17, 60], "risk": 0.01, **RACE, "heats": 12}
    assert to_json(from_json({"race": later})) == {"race": later}


def test_nothing_known_is_nothing_written():
    assert to_json(NOTHING) == {}
    assert from_json({}) is NOTHING
    assert from_json({"resources": None, "samples": None}) == NOTHING


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("race", None), ("race", []), ("race", {"tied": [-1]}), ("race", {"tied": [True]}),
        ("race", {"candidates": [{}]}), ("race", {"candidates": [{"index": "5"}]}),
        ("race", {"candidates": [{"key": "a\nb"}]}), ("race", {"default": 1.5}),
        ("race", {"candidates": [{"index": 1, "seconds": "fast"}]}),
        ("ci95", [1.0]), ("ci95", "ab"), ("ci95", [1.0, float("nan")]),
        ("samples", 1.5), ("samples", True), ("noise_floor", -1), ("roofline", float("inf")),
        ("resources", [1]), ("resources", {"registers": "many"}), ("kernel_hash", "x" * 65),
        ("graph", 1), ("flush", "yes"),
    ],
)  # fmt: skip
def test_a_key_of_ours_in_another_form_is_no_evidence(key, value):
    with pytest.raises(ValueError, match=f"{key!r} is"):
        from_json({key: value})
    assert from_notes({key: value}).others == {key: value}  # whoever notes it may


def test_keys_that_others_use_too_pass_in_their_form():
    row = {"number": "three", "device": "left", "clocks": 3, "verified": "by hand", "mine": [1]}
    assert from_json(row).others == row
    assert to_json(from_json(row)) == row


def test_evidence_is_frozen_and_joined():
    known = Evidence(samples=3, verified=True, others={"a": 1})
    with pytest.raises(dataclasses.FrozenInstanceError):
        known.samples = 4
    joined = known & Evidence(samples=5, others={"b": 2})
    assert joined == Evidence(samples=5, verified=True, others={"a": 1, "b": 2})
    assert set(NAMES) == {each.name for each in dataclasses.fields(Evidence)} - {"others"}


def test_results_are_made_and_changed_with_a_dict_as_ever():
    extra = {"verified": True, "mine": {"b": 1}}
    made = MeasureResult((1.0,), 0, 0.1, 2.0, "", extra)
    assert made == MeasureResult((1.0,), 0, 0.1, 2.0, extra=extra)
    assert made == MeasureResult((1.0,), 0, 0.1, 2.0, evidence=from_notes(extra))
    assert made.extra == extra
    assert made._replace(extra={}).evidence == NOTHING
    assert made._replace(costs=(2.0,)).extra == extra
    assert type(made._replace(costs=(2.0,))) is MeasureResult
    assert made._replace(extra={"samples": 3}).evidence.samples == 3
    assert pickle.loads(pickle.dumps(made)) == made
    costs, error_no, all_cost, timestamp, *_ = made
    assert (costs, error_no, all_cost, timestamp) == ((1.0,), 0, 0.1, 2.0)
    assert MeasureResult((1.0,), 0, 0.1, 2.0).extra == {}


def test_the_view_of_a_result_is_a_copy():
    made = MeasureResult((1.0,), 0, 0.1, 2.0, extra={"verified": True})
    made.extra["verified"] = False
    assert made.evidence.verified is True


def test_a_trial_knows_when_it_passed_its_stages():
    clock = TrialClock()
    clock.asked, clock.built = 100.0, 103.0
    ran = MeasureResult((1e-3,), 0, all_cost=3.5, timestamp=106.0)
    assert clock.stages(2.0, ran) == (6.0, 5.0, 3.0, 1.5)
    copied = MeasureResult((1e-3,), 0, all_cost=2.0, timestamp=104.0)
    assert clock.stages(2.0, copied) == (4.0, 3.0, 1.0)


def test_stages_never_go_back_though_a_clock_was_set():
    clock = TrialClock()
    clock.asked, clock.built = 200.0, 103.0
    found = clock.stages(9.0, MeasureResult((1e-3,), 0, all_cost=9.5, timestamp=104.0))
    assert list(found) == sorted(found, reverse=True)
    assert from_json({"stages": list(found)}).stages == found
