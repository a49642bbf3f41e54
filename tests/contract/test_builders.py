"""What every builder does: one result for each input, in order, failures as results."""

import pytest

import autotune.task as at
from autotune.measure import Builder, LocalBuilder, MeasureErrorNo
from tests.fleet.small import fleet_builder, no_fleet_stays  # noqa: F401 - a fixture
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.measure.doubles import PlainBuilder
from tests.trials import inputs_of

BUILDERS = {
    "local": lambda: LocalBuilder(n_parallel=2),
    "local-uncached": lambda: LocalBuilder(n_parallel=1, cache=False),
    "script": PlainBuilder,
    "fleet": fleet_builder,
}


@pytest.fixture(params=list(BUILDERS))
def builder(request):
    builder = BUILDERS[request.param]()
    yield builder
    builder.close()


@pytest.fixture
def task():
    return at.create("measure_test.scale", (64, 8), target="c")


def test_it_is_a_builder(builder):
    assert isinstance(builder, Builder)
    assert builder.n_parallel >= 1


def test_build_gives_one_result_for_each_input_in_order(builder, task):
    builder.set_task(task, {})
    results = builder.build(inputs_of(task, [3, 1, 2]))
    assert [r.error_no for r in results] == [MeasureErrorNo.NO_ERROR] * 3
    assert len({r.artifact for r in results}) == 3


def test_submit_gives_the_same_as_build(builder, task):
    builder.set_task(task, {})
    futures = [builder.submit(i) for i in inputs_of(task, range(6))]
    results = [f.result(timeout=30) for f in futures]
    assert [r.error_no for r in results] == [MeasureErrorNo.NO_ERROR] * 6
    assert all(r.artifact for r in results)


def test_it_can_be_used_again_after_close(builder, task):
    builder.set_task(task, {})
    for _ in range(2):
        assert builder.submit(inputs_of(task, [0])[0]).result(timeout=30).ok
        builder.close()
    builder.close()


def test_pause_and_resume_come_in_pairs_and_lose_nothing(builder, task):
    builder.set_task(task, {})
    futures = [builder.submit(i) for i in inputs_of(task, range(8))]
    for _ in range(5):
        builder.pause()
        builder.resume()
    assert all(f.result(timeout=30).ok for f in futures)


def test_discard_takes_any_result(builder, task):
    builder.set_task(task, {})
    built = builder.build(inputs_of(task, [0]))[0]
    builder.discard(built)
    builder.discard(built)
