"""What a builder made is there as long as the builder."""

import gc
from pathlib import Path

import autotune.task as at
from autotune.measure import LocalBuilder, LocalRunner
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.trials import inputs_of


def test_running_what_a_dropped_builder_made_says_that_it_must_be_held():
    task = at.create("measure_test.scale", (64, 8), target="c")
    inputs = inputs_of(task, [0])
    results = LocalBuilder(n_parallel=1).build(inputs)
    gc.collect()
    assert results[0].filename == results[0].artifact
    assert not Path(results[0].artifact).exists()
    runner = LocalRunner(cooldown_interval=0)
    runner.set_task(task)
    (result,) = runner.run(inputs, results)
    runner.close()
    assert "a builder removes what it built when it is closed" in result.error_msg
