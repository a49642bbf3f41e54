"""What every runner does: one result for each candidate, in order; costs are floats or nothing."""

import pytest

import autotune.task as at
from autotune.measure import LocalBuilder, LocalRunner, Runner
from tests.fleet.small import fleet_builder, fleet_runner, no_fleet_stays  # noqa: F401
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.measure.doubles import PlainBuilder, PlainRunner
from tests.trials import inputs_of

PAIRS = {
    "local": (lambda: LocalBuilder(n_parallel=1), lambda: LocalRunner(cooldown_interval=0)),
    "script": (PlainBuilder, PlainRunner),
    "fleet": (fleet_builder, fleet_runner),
}


@pytest.fixture(params=list(PAIRS))
def pair(request):
    builder, runner = (make() for make in PAIRS[request.param])
    task = at.create("measure_test.scale", (64, 8), target="c")
    runner.set_task(task)
    builder.set_task(task, runner.get_build_kwargs())
    inputs = inputs_of(task, range(4))
    yield runner, inputs, builder.build(inputs)
    runner.close()
    builder.close()


def test_it_is_a_runner(pair):
    runner, _, _ = pair
    assert isinstance(runner, Runner)
    assert runner.n_parallel >= 1


def test_run_gives_one_result_for_each_candidate(pair):
    runner, inputs, built = pair
    results = runner.run(inputs, built)
    assert len(results) == len(inputs)
    assert all(r.ok and r.costs and all(isinstance(c, float) for c in r.costs) for r in results)


def test_submit_gives_the_same_as_run(pair):
    runner, inputs, built = pair
    futures = [runner.submit(i, b) for i, b in zip(inputs, built, strict=True)]
    assert all(f.result(timeout=30).ok for f in futures)


def test_a_race_times_every_candidate_as_often(pair):
    runner, inputs, built = pair
    for device in runner.race_devices():
        timings = runner.race(list(zip(inputs, built, strict=True)), 5, 1e-5, device)
        (counted,) = {len(each.samples_s) for each in timings}
        # On a busy host more samples are taken than were asked for, of which the least count.
        assert counted == 5 or all(counted + each.dropped > 5 for each in timings)


def test_it_can_be_used_again_after_close(pair):
    runner, inputs, built = pair
    for _ in range(2):
        assert runner.submit(inputs[0], built[0]).result(timeout=30).ok
        runner.close()
    runner.close()
