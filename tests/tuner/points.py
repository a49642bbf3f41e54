"""A space of three knobs, and trials of its points that take what a test says."""

from autotune.measure import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.task import create, get_config, template


@template("tests.tuner.points")
def points(*extents):
    config = get_config()
    for name, extent in zip("xyz", extents, strict=True):
        config.define_knob(name, list(range(extent)))


def points_task(*extents):
    return create("tests.tuner.points", extents or (10, 10, 10), "c")


def index_of(task, digits):
    return task.config_space.knob2point(list(digits))


def digits_of(task, configs):
    """Return the digits of each knob of some configurations."""
    return [tuple(row) for row in task.config_space.knobs([one.index for one in configs]).tolist()]


def tell(tuner, task, trials):
    """Tell a tuner of trials: pairs of digits, and of seconds, several of them, or None."""
    inputs, results = [], []
    for digits, seconds in trials:
        config = task.config_space.get(index_of(task, digits))
        inputs.append(MeasureInput(task.target, task, config))
        if seconds is None:
            results.append(MeasureResult((), MeasureErrorNo.COMPILE_DEVICE, 0.1, 0.0, "no"))
        else:
            costs = seconds if isinstance(seconds, tuple) else (seconds,)
            results.append(MeasureResult(costs, 0, 0.1, 0.0))
    tuner.update(inputs, results)
