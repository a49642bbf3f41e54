"""Two logs compared: what counts as a change, and how often that is wrong."""

import math
from pathlib import Path

import numpy as np
import pytest

from autotune.measure import MeasureResult
from autotune.measure.run.timing import costs_of, evidence_of
from autotune.measure.types import without_extremes
from autotune.record import decode
from autotune.report import Side, compare, overall, read_records
from autotune.report.compare import interval_of, ratio_interval
from autotune.runtime import summarize
from autotune.runtime.timing import median_interval
from tests.record.records import TVM_ROW, failed, make_config, make_input


def timed(samples, workload="gemm", k=1):
    timing = summarize(list(samples), 1)
    result = MeasureResult(costs_of(timing), 0, 0.1, 1.7e9, "", evidence_of(timing))
    return make_input(workload, (64,), "llvm", make_config(k, k=k)), result


def noisy(rng, seconds, spread=0.01, count=15):
    between_runs = rng.normal(1, 0.02)
    return seconds * between_runs * (1 + spread * rng.standard_normal(count))


def test_equal_programs_are_told_apart_in_about_a_twentieth_of_comparisons():
    rng, wrong, of = np.random.default_rng(0), 0, 300
    for _ in range(of):
        results = [timed(noisy(rng, 1e-3))[1] for _ in range(2)]
        low, high = ratio_interval(*(Side(r.seconds, interval_of(r), {}, "0") for r in results))
        wrong += not low <= 1 <= high
    # 5% of 3,000; neither blind nor nervous.
    assert 0.02 * of < wrong < 0.08 * of


def test_a_tenth_slower_is_seen():
    rng = np.random.default_rng(1)
    seen = 0
    for _ in range(100):
        (one,) = compare([timed(noisy(rng, 1e-3))], [timed(noisy(rng, 1.1e-3))])
        seen += one.verdict == "slower"
    assert seen > 80


def test_a_wide_interval_makes_a_large_change_the_same():
    wild = [1e-3, 1.4e-3, 0.7e-3, 1.9e-3, 0.5e-3, 1.1e-3]
    (one,) = compare([timed(wild)], [timed([1.3e-3] * 6)])
    assert one.verdict == "same"
    assert one.ratio == pytest.approx(1.3e-3 / 1.05e-3)
    low, high = one.interval
    assert low < 1 < high


def test_a_regression_is_a_change_beyond_noise_and_above_the_part():
    (one,) = compare([timed([1e-3] * 9)], [timed([1.08e-3] * 9)])
    assert one.verdict == "slower"
    assert one.regressed(0.05)
    assert not one.regressed(0.1)
    (back,) = compare([timed([1.08e-3] * 9)], [timed([1e-3] * 9)])
    assert (back.verdict, back.regressed(0.0)) == ("faster", False)


def test_a_workload_whose_trials_all_fail_now_is_lost_and_one_without_trials_is_missing():
    inp, _ = timed([1e-3] * 3)
    never = make_input("bad", (1,), "llvm", make_config(0, k=1)), failed(3)
    lost, missing, nothing = compare(
        [timed([1e-3] * 3), timed([1e-3] * 3, "conv"), never], [(inp, failed(4, "it crashed"))]
    )
    assert (lost.verdict, lost.regressed(0.5)) == ("lost", True)
    assert (missing.verdict, missing.regressed(0.0)) == ("only before", False)
    assert nothing.verdict == "nothing succeeded in either"


def test_samples_in_a_row_of_autotvm_give_its_interval():
    inp, result = decode(TVM_ROW)
    assert interval_of(result) is None  # two samples say nothing of their median
    more = result._replace(costs=(1e-4, 1.1e-4, 1.2e-4, 1.3e-4, 1.4e-4, 1.5e-4, 1.6e-4, 1.7e-4))
    low, high = interval_of(more)
    assert low < more.seconds < high
    (one,) = compare([(inp, more)], [(inp, more)])
    assert (one.verdict, one.ratio) == ("same", 1.0)


@pytest.mark.parametrize("n", [9, 10, 15, 30])
def test_costs_without_extremes_give_the_interval_of_all_samples(n):
    samples = [1e-3 + 1e-5 * i * i for i in range(n)]
    result = MeasureResult(without_extremes(samples), 0, 0.1, 1.0)
    assert interval_of(result) == median_interval(samples)


def test_an_interval_of_another_number_is_not_believed():
    _, result = timed([1e-3] * 6)
    strange = result._replace(costs=(5e-3,))
    assert interval_of(strange) is None


def test_the_winner_of_a_race_is_what_is_compared():
    race = {"candidates": [{"index": 1, "seconds": 2e-3}, {"index": 0, "seconds": 3e-3}]}
    inp = make_input("gemm", (64,), "llvm", make_config(1, k=1))
    lucky = inp, MeasureResult((1e-3,), 0, 0.1, 1.0)
    won = inp, MeasureResult((2e-3,), 0, 0.1, 1.0, "", {"race": race})
    (one,) = compare([lucky, won], [lucky, won])
    assert one.before.seconds == 2e-3


def test_knobs_that_changed_are_named_with_both_values():
    (one,) = compare([timed([1e-3] * 3, k=1)], [timed([1e-3] * 3, k=4)])
    assert one.changed == {"k": (1, 4)}


def test_the_change_over_all_workloads_is_their_geometric_mean():
    before = [timed([1e-3] * 3, f"w{i}") for i in range(6)]
    after = [timed([1e-3 * 2 ** (i % 2)] * 3, f"w{i}") for i in range(6)]
    mean, (low, high) = overall(compare(before, after))
    assert mean == pytest.approx(math.sqrt(2))
    assert 1 <= low < mean < high <= 2
    assert overall(compare(before[:2], after[:2]))[1] is None
    assert overall(compare(before, [])) is None


def test_logs_of_the_auto_scheduler_are_compared_too():
    path = Path(__file__).parents[1] / "data" / "auto_scheduler" / "resnet-18-NHWC-B1-cuda.json"
    records, wrong = read_records(path)
    assert (len(records), wrong) == (24, "")
    rows = compare(records, records)
    assert len(rows) == 24
    assert {one.verdict for one in rows} == {"same"}
    mean, interval = overall(rows)
    assert (mean, interval) == (1.0, None)
