"""Records measured again: what held, what did not."""

import pytest

import autotune.task as at
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, MeasureResult, measure_option
from autotune.measure.final.recheck import TimingConditions, recheck, verdict
from autotune.runtime.device import Device
from tests.measure import kernels  # noqa: F401 - registers the templates


def result(*costs, error_no=0, **evidence):
    return MeasureResult(costs, error_no, 0.1, 1.0, "", evidence)


@pytest.mark.parametrize(
    ("recorded", "measured", "expected"),
    [
        (result(1.0), result(1.04), "confirmed"),
        (result(1.0), result(1.2), "slower"),
        (result(1.0), result(0.8), "faster"),
        (result(0.0), result(0.8), "slower"),
        (result(1.0, ci95=[0.9, 1.1]), result(1.2, ci95=[1.05, 1.3]), "confirmed"),
        (result(1.0, ci95=[0.99, 1.01]), result(1.2, ci95=[1.19, 1.21]), "slower"),
        (result(1.0, noise_floor=0.3), result(1.2, ci95=[1.19, 1.21]), "confirmed"),
        (result(1.0), result(0.8, noise_floor=0.3), "confirmed"),
        (result(9.0, ci95=[0.9, 1.1]), result(1.0, ci95=[0.9, 1.1]), "faster"),
        (result(1.0), result(error_no=5), "wrong"),
        (result(1.0), result(error_no=7), "failed"),
    ],
)
def test_the_verdict(recorded, measured, expected):
    assert verdict(recorded, measured) == expected


def test_a_time_of_the_emulator_is_not_compared():
    assert verdict(result(1.0), result(3.0), emulated=True) == "confirmed"
    assert verdict(result(1.0), result(error_no=5), emulated=True) == "wrong"


def test_a_race_is_compared_by_its_median_like_every_other_record():
    race = MeasureResult((0.9, 1.1), 0, 0.1, 1.0, "", {"race": {"tied": [1]}})
    assert verdict(race, result(1.0)) == "confirmed"
    assert verdict(race, result(1.2)) == "slower"


def record(task, index, *costs, **extra):
    inp = MeasureInput(task.target, task, task.config_space.get(index))
    return inp, MeasureResult(costs, 0, 0.1, 1.0, "", extra)


def test_what_worked_is_measured_again_task_by_task():
    task = at.create("measure_test.faulty", (["none", "wrong"],), target="c")
    other = at.create("measure_test.scale", (64, 8), target="c")
    log = [record(task, 0, 2.0), record(other, 3, 1e-9), record(task, 1, 1.0)]
    log.append((log[0][0], result(error_no=4)))
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0, verify="all"))
    checked = list(recheck(log, lambda way: option))
    assert [c.measure_input.config.index for c in checked] == [0, 1, 3]
    assert [c.verdict for c in checked] == ["faster", "wrong", "slower"]
    assert [c.recorded.mean for c in checked] == [2.0, 1.0, 1e-9]
    assert [c.holds for c in checked] == [True, False, False]
    assert [c.checked for c in checked] == [True, True, True]


def test_what_has_no_template_or_no_device_here_failed_and_the_others_are_measured(monkeypatch):
    unknown = at.Task("test_recheck.unknown", (64,), target="c")
    elsewhere = at.create("measure_test.scale", (64, 8), target="cuda -arch=sm_90")
    other = at.create("measure_test.scale", (64, 8), target="c")
    log = [
        (MeasureInput(unknown.target, unknown, at.ConfigEntity(0, None, {})), result(1.0)),
        record(elsewhere, 0, 1.0),
        record(other, 0, 1.0),
    ]
    monkeypatch.setattr(Device, "exist", property(lambda self: self.kind == "cpu"))
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0))
    checked = list(recheck(log, lambda way: option))
    assert [c.verdict for c in checked] == ["failed", "failed", "faster"]
    assert "no template is registered" in checked[0].measured.error_msg
    assert "no such device here" in checked[1].measured.error_msg


def test_a_record_is_timed_again_in_the_way_it_was_timed():
    task = at.create("measure_test.scale", (64, 8), target="c")
    log = [
        record(task, 0, 1.0),
        record(task, 1, 1.0, flush=True, min_repeat_ms=5),
        record(task, 2, 1.0, graph=False),
        record(task, 3, 1.0),
    ]
    asked = []

    def option_for(conditions):
        asked.append(conditions)
        return measure_option(
            LocalBuilder(), LocalRunner(cooldown_interval=0, **conditions.arguments())
        )

    checked = list(recheck(log, option_for))
    assert [c.measure_input.config.index for c in checked] == [0, 3, 1, 2]
    assert asked == [
        TimingConditions(),
        TimingConditions(flush=True, min_repeat_ms=5),
        TimingConditions(graph=False),
    ]
    # The new records say the same of themselves.
    assert [TimingConditions.of(c.measured) for c in checked] == [asked[0], *asked]


def test_conditions_of_timing_are_arguments_of_a_runner():
    options = LocalRunner(
        **TimingConditions(flush=True, graph=False, min_repeat_ms=5).arguments()
    ).options
    assert (options.flush, options.graph, options.timing.min_repeat_ms) == (True, False, 5)
    plain, default = LocalRunner(**TimingConditions().arguments()).options, LocalRunner().options
    assert plain == default
