"""What a builder made is there for those who hold its results."""

import gc
from pathlib import Path

import autotune.task as at
from autotune.measure import LocalBuilder
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.trials import inputs_of


def test_artifacts_stay_as_long_as_the_results_that_name_them():
    task = at.create("measure_test.scale", (64, 8), target="c")
    results = LocalBuilder(n_parallel=1).build(inputs_of(task, [0, 1]))
    gc.collect()
    places = [Path(result.artifact) for result in results]
    assert all(place.exists() for place in places)
    assert [result.filename for result in results] == [str(place) for place in places]
    del results[0]
    gc.collect()
    assert all(place.exists() for place in places)
    results.clear()
    gc.collect()
    assert not any(place.exists() for place in places)
