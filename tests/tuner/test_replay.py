"""The replayed device: what it answers, and from what it can be made."""

from pathlib import Path

import numpy as np
import pytest

from autotune.errors import RecordError
from autotune.measure import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.task import create, get_config, template
from autotune.tuner import AutoTuner, GridSearchTuner, RandomTuner, Recording, ReplayRunner

SPACES = Path(__file__).parent.parent / "data" / "recorded_spaces"
CONVOLUTION = SPACES / "convolution__RTX_3090.npz"


@template("tests.replay.split")
def split():
    config = get_config()
    config.define_split("tile", 64, num_outputs=3)
    config.define_knob("layout", ["row", "column"])


@pytest.fixture(scope="module")
def recording():
    return Recording.load(CONVOLUTION)


def watch(order):
    return lambda tuner, inputs, results: order.extend(zip(inputs, results, strict=True))


def test_the_space_holds_exactly_what_was_recorded(recording):
    space = recording.task().config_space
    assert (len(space), space.range_length, space.has_constraints) == (6768, 16896, True)
    indices = space.indices(recording.codes)
    assert space.is_valid(indices).all()
    assert set(space.sample(10_000, np.random.default_rng(0)).tolist()) == set(indices.tolist())


@pytest.mark.parametrize("path", sorted(SPACES.glob("*.npz")), ids=lambda p: p.stem)
def test_every_recording_loads(path):
    loaded = Recording.load(path)
    assert len(loaded.results) == len(loaded.codes) > 4000
    assert 0 < loaded.best() < 1


def test_a_run_gets_the_recorded_times_and_failures(recording):
    order = []
    RandomTuner(recording.task(), seed=0).tune(200, recording.option(), callbacks=[watch(order)])
    for inp, res in order:
        row = dict(zip(recording.knobs, recording.codes.T, strict=True))
        mask = np.ones(len(recording.codes), dtype=bool)
        for name, values in recording.knobs.items():
            mask &= row[name] == list(values).index(inp.config[name].val)
        recorded = recording.results[int(np.flatnonzero(mask)[0])]
        assert (res.costs, res.error_no) == (recorded.costs, recorded.error_no)
    failed = [res for _, res in order if not res.ok]
    assert failed[0].error_no == MeasureErrorNo.COMPILE_DEVICE


def test_noise_is_small_and_repeatable(recording):
    def costs():
        order = []
        option = {**recording.option(), "runner": ReplayRunner(recording, noise=0.01, seed=4)}
        GridSearchTuner(recording.task()).tune(50, option, callbacks=[watch(order)])
        return [res.mean for _, res in order if res.ok]

    first, second = costs(), costs()
    assert first == second
    order = []
    GridSearchTuner(recording.task()).tune(50, recording.option(), callbacks=[watch(order)])
    exact = [res.mean for _, res in order if res.ok]
    assert 0 < np.abs(np.array(first) / exact - 1).max() < 0.06


def test_a_log_can_be_replayed():
    task = create("tests.replay.split", (), "c")
    pairs = []
    for index in range(0, len(task.config_space), 2):
        config = task.config_space.get(index)
        cost = 1e-3 * (1 + index) if index else None
        result = (
            MeasureResult((cost,), 0, 0.1, 0.0) if cost
            else MeasureResult((), MeasureErrorNo.RUN_TIMEOUT, 9.0, 0.0, "too slow")
        )  # fmt: skip
        pairs.append((MeasureInput(task.target, task, config), result))
    recording = Recording.from_records(pairs)
    order = []
    RandomTuner(recording.task(), seed=0).tune(99, recording.option(), callbacks=[watch(order)])
    assert len(order) == len(pairs) == 28
    by_choice = {(tuple(i.config["tile"].size), i.config["layout"].val): r for i, r in order}
    for inp, res in pairs:
        key = (tuple(inp.config["tile"].size), inp.config["layout"].val)
        assert by_choice[key].error_no == res.error_no
        assert by_choice[key].costs == res.costs


def test_rows_of_different_tasks_are_refused():
    with pytest.raises(RecordError, match="at least one record"):
        Recording.from_records([])


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    (tmp_path / "x.npz").write_text("not a zip")
    with pytest.raises(RecordError, match=r"x\.npz: not a recorded space"):
        Recording.load(tmp_path / "x.npz")


def test_the_default_tuner_finds_a_good_configuration_soon(recording):
    for seed in range(3):
        tuner = AutoTuner(recording.task(), seed=seed)
        tuner.tune(90, recording.option())
        assert tuner.best_measure_pair[1].mean < 1.1 * recording.best()
