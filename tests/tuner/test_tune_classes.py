"""One run on several classes of devices: a best for each, and each learns from all."""

import json

import numpy as np
import pytest

import autotune.task as at
from autotune.errors import MeasureError, TunerError
from autotune.kernel import SourceKernel, arg
from autotune.record import ApplyHistoryBest
from autotune.runtime import Descriptor
from autotune.target import Target
from autotune.tuner import callback
from autotune.tuner.models.across_classes import AcrossClasses
from autotune.tuner.replay import Recording
from autotune.tuner.tune_classes import OnClass, task_on, tune_classes
from tests.measure.doubles import PlainBuilder, PlainRunner

SMALL = Descriptor("cpu", "Small", "x_1", 1, bandwidth=1e10)
LARGE = Descriptor("cpu", "Large", "x_64", 64, bandwidth=2e11)
SPACES = "tests/data/recorded_spaces/"
KNOBS = 64


@at.template("tests/classes")
def kernel():
    cfg = at.get_config()
    cfg.define_knob("knob", list(range(1, KNOBS + 1)))
    return SourceKernel(
        "f",
        "void f(float *y) { y[0] = KNOB; }",
        defines={"KNOB": cfg["knob"].val},
        args=[arg("y", (1,), role="out")],
        language="c",
    )


@pytest.fixture
def task():
    return at.create("tests/classes", (), "c")


class Favours(PlainRunner):
    """A device on which one configuration is the fastest, and those near it nearly."""

    def __init__(self, index, lost_after=10**9):
        super().__init__()
        self.index, self.lost_after = index, lost_after

    def one(self, built):
        self.lost_after -= 1
        if self.lost_after < 0:
            raise MeasureError("the device fell off the bus")
        result = super().one(built)
        return result._replace(costs=((1 + abs(int(built.artifact) - self.index)) * 1e-3,))


def option(*args):
    return {"builder": PlainBuilder(), "runner": Favours(*args)}


def test_each_class_has_a_best_of_its_own_which_replay_finds(task, tmp_path):
    log = tmp_path / "classes.log"
    classes = [OnClass(SMALL, option(5)), OnClass(LARGE, option(50))]
    # All are tried: which of fewer are depends on whose results come first.
    found = tune_classes(task, classes, KNOBS, callbacks=[callback.log_to_file(log)], seed=0)
    assert {key: one.trials for key, one in found.items()} == {SMALL.key: KNOBS, LARGE.key: KNOBS}
    best = {key: one.best_config.index for key, one in found.items()}
    assert best == {SMALL.key: 5, LARGE.key: 50}
    targets = {json.loads(line)["input"][0] for line in log.read_text().splitlines()}
    assert targets == {"c -keys=cpu -model=Large-x_64", "c -keys=cpu -model=Small-x_1"}
    with ApplyHistoryBest(str(log)) as history:
        for device in (SMALL, LARGE):
            target = Target(f"c -model={device.model}")
            assert history.query(target, task_on(task, device).workload).index == best[device.key]


def test_a_run_over_classes_is_resumed_where_each_was(task, tmp_path):
    log = str(tmp_path / "classes.log")
    for trials, resumed in ((8, 0), (20, 8)):
        classes = [OnClass(SMALL, option(5)), OnClass(LARGE, option(50))]
        found = tune_classes(
            task, classes, trials, callbacks=[callback.log_to_file(log)], resume=log, seed=0
        )
        assert {one.resumed for one in found.values()} == {resumed}


def test_a_class_that_is_lost_costs_the_others_nothing(task, caplog):
    classes = [OnClass(SMALL, option(5, 10)), OnClass(LARGE, option(50))]
    found = tune_classes(task, classes, 30, seed=0)
    assert {key: one.trials for key, one in found.items()} == {LARGE.key: 30}
    assert "Small (x_1): tuning ended early: the device fell off the bus" in caplog.text
    with pytest.raises(MeasureError, match="fell off the bus"):
        tune_classes(task, classes[:1], 30, seed=0)


def test_classes_must_be_distinct(task):
    for classes in ([], [OnClass(SMALL, option(5))] * 2):
        with pytest.raises(TunerError, match="classes must be distinct, and one at least"):
            tune_classes(task, classes, 30)


def test_the_model_tells_devices_apart_by_their_columns(task):
    like_large = Descriptor("cpu", "Larger", "x_96", 96, bandwidth=2.2e11)
    across = AcrossClasses({one: task_on(task, one) for one in (SMALL, LARGE, like_large)})
    points = list(range(0, KNOBS, 2))
    across.learn(SMALL.key, points, [1e3 / (1 + i) for i in points])
    across.learn(LARGE.key, points, [1e3 * (1 + i) for i in points])
    told = {}
    for one in (SMALL, LARGE, like_large):
        view = across.view(one.key)
        view.refresh()
        told[one.name] = np.corrcoef(view.predict(range(KNOBS)), np.arange(KNOBS))[0, 1]
    assert told["Small"] < -0.8
    assert min(told["Large"], told["Larger"]) > 0.8  # of the last there is no trial at all


def test_recorded_gpus_tuned_together_each_end_with_their_own_best():
    classes = []
    for name, processors in (("RTX_3060_laptop", 30), ("RTX_3090", 82)):
        recording = Recording.load(f"{SPACES}convolution__{name}.npz")
        device = Descriptor("cuda", name, "sm_86", processors)
        own = recording.task("convolution", (name,))
        classes.append((recording, OnClass(device, recording.option(), own)))
    found = tune_classes(classes[0][1].task, [one for _, one in classes], 32, seed=1)
    for recording, one in classes:
        assert found[one.device.key].seconds < 1.5 * recording.best()
