"""What builders, runners and scripts may give to a pipeline, and what is refused."""

import signal

import pytest

import autotune.task as at
from autotune.errors import MeasureError
from autotune.measure import (
    Builder,
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    Pipeline,
    Runner,
    create_measure_batch,
    measure_option,
)
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.measure.doubles import PlainBuilder, PlainRunner
from tests.measure.test_pipeline import drained, inputs_of


@pytest.fixture
def task():
    return at.create("measure_test.scale", (64, 64), target="c")


def test_nothing_outstanding_gives_nothing(task):
    with Pipeline(task, measure_option(PlainBuilder(), PlainRunner())) as pipeline:
        assert pipeline.next_results() == []


def test_failures_of_script_builders_and_runners_become_text(task):
    option = measure_option(PlainBuilder(failing=[1]), PlainRunner(failing=[2]))
    with Pipeline(task, option) as pipeline:
        pipeline.submit(inputs_of(task, range(4)))
        results = [result for _, result in drained(pipeline)]
    assert [r.error_no for r in results] == [0, 2, 4, 0]
    assert results[1].costs == results[2].costs == ()
    assert results[1].error_msg == "refused\na traceback"
    assert results[2].error_msg == "device lost"


def test_an_exception_in_a_script_runner_reaches_the_caller(task):
    class Broken(Runner):
        def run(self, measure_inputs, build_results):
            raise KeyError("a bug in the script")

    with Pipeline(task, measure_option(PlainBuilder(), Broken())) as pipeline:
        pipeline.submit(inputs_of(task, [0]))
        with pytest.raises(KeyError, match="a bug in the script"):
            pipeline.next_results()


@pytest.fixture
def no_hang():
    """Interrupt a test that waits for ever."""

    def give_up(*_):
        raise TimeoutError("still waiting after 20 s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("where", ["build", "run", "discard"])
def test_an_interrupt_or_exit_in_a_script_reaches_the_caller(task, where, error):
    def breaks(*_):
        raise error("asked to end")

    builder, runner = PlainBuilder(n_parallel=2), PlainRunner()
    setattr(runner if where == "run" else builder, where, breaks)
    with Pipeline(task, measure_option(builder, runner)) as pipeline:
        pipeline.submit(inputs_of(task, range(3)))
        with pytest.raises(error, match="asked to end"):
            drained(pipeline)


def test_a_builder_that_loses_results_is_told_so(task):
    class Lossy(Builder):
        def build(self, measure_inputs):
            return []

    with Pipeline(task, measure_option(Lossy(), PlainRunner())) as pipeline:
        pipeline.submit(inputs_of(task, [0]))
        with pytest.raises(MeasureError, match=r"Lossy\.build: expected one result for each"):
            pipeline.next_results()


def test_what_the_runner_knows_of_the_device_reaches_the_builder(task):
    builder = PlainBuilder()
    Pipeline(task, measure_option(builder, PlainRunner())).close()
    assert builder.build_kwargs == {"from_runner": True}
    assert builder.task is task


def test_measure_batch_measures_a_list(task):
    option = measure_option(PlainBuilder(n_parallel=3), PlainRunner())
    measure_batch = create_measure_batch(task, option)
    assert measure_batch.n_parallel == 3
    assert measure_batch.attach_objects == (option["builder"], option["runner"])
    for _ in range(2):
        results = measure_batch(inputs_of(task, [4, 2]))
        assert [round(r.mean * 1e3) for r in results] == [5, 3]
    measure_batch.close()


def test_strings_stand_for_local():
    option = measure_option("local", "local")
    assert isinstance(option["builder"], LocalBuilder)
    assert isinstance(option["runner"], LocalRunner)


def test_bad_options_are_refused_in_words(task):
    with pytest.raises(MeasureError, match="builder must be a Builder or 'local', got 'remote'"):
        measure_option("remote", "local")
    with pytest.raises(MeasureError, match="'runner' must be a Runner"):
        Pipeline(task, {"builder": PlainBuilder(), "runner": None})
    untargeted = at.Task("measure_test.scale", (64, 64))
    with pytest.raises(MeasureError, match="has no target"):
        Pipeline(untargeted, measure_option(PlainBuilder(), PlainRunner()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"timeout": 0}, "timeout must be positive"),
        ({"n_parallel": 0}, "n_parallel must be a whole number of at least 1"),
        ({"build_func": "ndk"}, "build_func must be 'default'"),
        ({"compiler": "icc"}, "compiler must be one of 'nvcc', 'nvrtc'"),
    ],
)
def test_a_local_builder_refuses_bad_arguments(arguments, message):
    with pytest.raises(MeasureError, match=message):
        LocalBuilder(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"timeout": -1}, "timeout must be positive"),
        ({"number": 0}, "must be a whole number of at least 1"),
        ({"module_loader": object()}, "as it is for remote devices"),
        ({"devices": [0, 0]}, "devices must be distinct"),
        ({"verify": "some"}, "verify: expected"),
    ],
)
def test_a_local_runner_refuses_bad_arguments(arguments, message):
    with pytest.raises(MeasureError, match=message):
        LocalRunner(**arguments)


def test_autotvm_arguments_keep_their_places():
    builder = LocalBuilder(20, 2, {"a": 1}, "default", True, None)
    assert (builder.timeout, builder.n_parallel) == (20, 2)
    runner = LocalRunner(5, 6, 7, 8, 0.5, True)
    timing = runner.options.timing
    assert (runner.timeout, timing.number, timing.repeat, timing.min_repeat_ms) == (5, 6, 7, 8)
    assert (runner.options.cooldown_s, runner.options.flush) == (0.5, True)


def test_errors_of_the_template_are_instantiation_errors(task):
    bad = at.create("measure_test.faulty", (["none", "refused"],), target="c")
    with Pipeline(bad, measure_option(LocalBuilder(), PlainRunner())) as pipeline:
        pipeline.submit(inputs_of(bad, [1]))
        ((_, result),) = drained(pipeline)
    assert result.error_no == MeasureErrorNo.INSTANTIATION_ERROR
    assert "refused by its template" in result.error_msg
