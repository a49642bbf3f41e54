"""Records measured again: what held, what did not."""

import pytest

import autotune.measure.measure as measure_module
import autotune.measure.measure_methods as methods_module
import autotune.task as at
from autotune import measure
from autotune.errors import InstantiationError
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, MeasureResult, measure_option
from autotune.measure.recheck import recheck, verdict
from tests.measure import kernels  # noqa: F401 - registers the templates


def result(*costs, error_no=0, ci95=None):
    return MeasureResult(costs, error_no, 0.1, 1.0, "", {"ci95": ci95} if ci95 else {})


@pytest.mark.parametrize(
    ("recorded", "measured", "expected"),
    [
        (result(1.0), result(1.04), "confirmed"),
        (result(1.0), result(1.2), "slower"),
        (result(1.0), result(0.8), "faster"),
        (result(1.0, ci95=[0.9, 1.1]), result(1.2, ci95=[1.05, 1.3]), "confirmed"),
        (result(1.0, ci95=[0.99, 1.01]), result(1.2, ci95=[1.19, 1.21]), "slower"),
        (result(1.0), result(error_no=5), "wrong"),
        (result(1.0), result(error_no=7), "failed"),
    ],
)
def test_the_verdict(recorded, measured, expected):
    assert verdict(recorded, measured) == expected


def test_the_best_of_each_task_is_measured_again():
    task = at.create("measure_test.faulty", (["none", "wrong"],), target="c")
    other = at.create("measure_test.scale", (64, 8), target="c")

    def record(task, index, cost):
        return MeasureInput(task.target, task, task.config_space.get(index)), result(cost)

    log = [record(task, 0, 2.0), record(task, 1, 1.0), record(other, 3, 1e-9)]
    log.append((log[0][0], result(error_no=4)))
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0, verify="all"))
    checked = list(recheck(log, option))
    assert [c.measure_input.config.index for c in checked] == [1, 3]
    assert [c.verdict for c in checked] == ["wrong", "slower"]
    everything = list(recheck(log, option, every=True))
    assert [c.verdict for c in everything] == ["faster", "wrong", "slower"]
    assert [c.recorded.mean for c in everything] == [2.0, 1.0, 1e-9]


def test_the_names_of_old_scripts_are_the_same_things():
    for module in (measure_module, methods_module):
        for name in set(module.__all__) - {"InstantiationError"}:
            assert getattr(measure, name) is getattr(module, name)
    assert methods_module.InstantiationError is InstantiationError
