"""What the compiler reports: known, predicted, and learned from."""

import numpy as np
import pytest

from autotune.features import KnobFeatures
from autotune.measure import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.measure.evidence import Evidence
from autotune.task import create, get_config, template
from autotune.tuner import XGBTuner
from autotune.tuner.models.resources import LEARNED, ResourceColumns, report_of


@template("tests.resources.tile")
def tile():
    config = get_config()
    for axis in "mn":
        config.define_knob(f"work_{axis}", [1, 2, 4, 8, 16])
        config.define_knob(f"threads_{axis}", [1, 2, 4, 8, 16, 32])
    config.define_knob("unroll", [0, 1, 2, 3])


def resources(config):
    work = config["work_m"].val * config["work_n"].val
    return {
        "registers": min(24 + work, 255),
        "shared_bytes": 128 * (config["work_m"].val * config["threads_m"].val + 1),
        "spill_bytes": max(0, 4 * (work - 231)),
        "code_bytes": 100 * work * (1 + config["unroll"].val),
    }


@pytest.fixture(scope="module")
def task():
    return create("tests.resources.tile", (), "c")


@pytest.fixture(scope="module")
def split(task):
    """Reports of 80 points by index, and 200 others."""
    drawn = task.config_space.sample(280, np.random.default_rng(3)).tolist()
    reports = {i: logs_of(task, i) for i in drawn}
    return {i: reports[i] for i in drawn[:80]}, {i: reports[i] for i in drawn[80:]}


def logs_of(task, index):
    return report_of(Evidence(resources=resources(task.config_space.get(index))))


def test_what_was_not_reported_is_none():
    assert report_of(Evidence()) is None
    assert report_of(Evidence(resources={})) is None
    assert report_of(Evidence(resources={"code_bytes": 64, "registers": 0})) is None


def test_reports_are_logarithms_and_what_is_missing_counts_as_none():
    report = report_of(Evidence(resources={"registers": 31, "shared_bytes": 1023}))
    assert dict(zip(LEARNED, report, strict=True)) == {
        "registers": 5, "spill_bytes": 0, "shared_bytes": 10, "stack_bytes": 0, "code_bytes": 0,
    }  # fmt: skip


def test_resources_of_what_was_not_built_are_predicted(task, split):
    reports, others = split
    columns = ResourceColumns(reports, KnobFeatures(task.config_space))
    truth = np.stack(list(others.values()))
    for rows in (columns.known(list(others)), columns.predicted(list(others))):
        for name in ("registers", "shared_bytes", "code_bytes"):
            at = LEARNED.index(name)
            assert np.corrcoef(rows[:, at], truth[:, at])[0, 1] > 0.95


def test_what_was_built_is_known(task, split):
    reports, _ = split
    columns = ResourceColumns(reports, KnobFeatures(task.config_space))
    table = np.stack(list(reports.values()))
    scaled = (table - table.min(0)) / np.maximum(np.ptp(table, axis=0), 1e-9)
    np.testing.assert_allclose(columns.known(list(reports)), scaled)


def test_a_prediction_of_what_was_built_does_not_know_it(task, split):
    reports, _ = split
    features = KnobFeatures(task.config_space)
    left_out = next(iter(reports))
    others = {i: report for i, report in reports.items() if i != left_out}
    alone = ResourceColumns(others, features).predicted([left_out])
    among = ResourceColumns(reports, features).predicted([left_out])
    np.testing.assert_allclose(among, alone, atol=0.02)


def test_launches_refused_for_their_resources_teach_to_avoid_such(task):
    failed = [not r.ok for seed in range(3) for r in run(task, seed, True, 60)[30:]]
    at_random = task.config_space.sample(400, np.random.default_rng(0))
    refused = [not result_of(task.config_space.get(int(i)), True).ok for i in at_random]
    assert np.mean(failed) < 0.7 * np.mean(refused)


def run(task, seed, reported, trials):
    tuner, results = XGBTuner(task, seed=seed), []
    while len(results) < trials:
        configs = tuner.next_batch(6)
        batch = [result_of(c, reported) for c in configs]
        tuner.update([MeasureInput(task.target, task, c) for c in configs], batch)
        results += batch
    return results


def result_of(config, reported):
    needs = resources(config)
    extra = {"resources": needs} if reported else {}
    threads = config["threads_m"].val * config["threads_n"].val
    if needs["registers"] * threads > 4096:
        failure = "too many resources requested for launch"
        return MeasureResult((), MeasureErrorNo.RUNTIME_DEVICE, 0.1, 0.0, failure, extra)
    work = config["work_m"].val * config["work_n"].val
    return MeasureResult((1.0 / (work * threads),), 0, 0.1, 0.0, "", extra)


def test_a_run_with_reports_repeats_from_its_seed(task):
    first, second = ([r.mean if r.ok else None for r in run(task, 7, True, 48)] for _ in range(2))
    assert first == second
