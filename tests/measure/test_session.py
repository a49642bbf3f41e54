"""Open sessions: trials of many workloads share processes, and each keeps what is its own."""

import os
import signal
import threading
import time
from concurrent.futures import CancelledError, Future

import numpy as np
import pytest

import autotune.task as at
from autotune import te
from autotune.errors import MeasureError
from autotune.kernel import SourceKernel, arg
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    Pipeline,
    Runner,
    Session,
    measure_option,
)
from autotune.target import Target
from autotune.tuner import GridSearchTuner, RandomTuner
from autotune.workload import GraphWorkload, ScheduleSteps
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.measure.doubles import PlainBuilder, PlainRunner

KNOBS = 8


@at.template("measure_test.times")
def times(factor, wrong):
    """``y = factor * x``; the knobs in ``wrong`` give a wrong answer."""
    cfg = at.get_config()
    cfg.define_knob("knob", list(range(KNOBS)))
    knob = cfg["knob"].val
    return SourceKernel(
        "times",
        """void times(const float *x, float *y) {
          for (int i = 0; i < 64; i++) y[i] = FACTOR * x[i] + WRONG;
          volatile int different = KNOB;
        }""",
        defines={"FACTOR": factor, "WRONG": int(knob in wrong), "KNOB": knob},
        args=[arg("x", (64,)), arg("y", (64,), role="out")],
        reference=lambda x: np.float32(factor) * x,
        language="c",
    )


@at.template("measure_test.product")
def product(n):
    a = te.placeholder((n, n), name="a")
    b = te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c.op)
    cfg = at.get_config()
    cfg.define_split("tile", s[c].op.axis[1], num_outputs=2)
    cfg["tile"].apply(s, c, s[c].op.axis[1])
    return s, [a, b, c]


class Unrated(GraphWorkload):
    """Says nothing of bytes, so that no time goes into the ceilings of this machine."""

    bytes = 0.0


def times_task(factor, wrong=()):
    return at.create("measure_test.times", (factor, tuple(wrong)), target="c")


def candidates(task, indices=range(KNOBS)):
    return [task.config_space.get(i) for i in indices]


def inputs_of(task, indices=range(KNOBS)):
    return [MeasureInput(task.target, task, one) for one in candidates(task, indices)]


def local():
    return LocalBuilder(n_parallel=2), LocalRunner(number=1, repeat=1, cooldown_interval=0)


@pytest.fixture(scope="module")
def session():
    with Session(*local()) as session:
        yield session


def pids(session):
    return [*session.builder.pids, *session.runner.pids]


def outcome(result):
    """Return all of a result that does not depend on the clock."""
    return result.error_no, result.extra.get("verified"), result.extra.get("kernel_hash")


def test_trials_of_many_workloads_mix_and_each_is_judged_by_its_own_reference(session):
    tasks = [times_task(2, wrong=[1, 4]), times_task(3, wrong=[2]), times_task(4)]
    mixed = [inp for inputs in zip(*map(inputs_of, tasks), strict=True) for inp in inputs]
    together = list(session.stream(mixed))
    assert [inp for inp, _ in together] == mixed
    for task in tasks:
        with Session(*local()) as alone:
            expected = [outcome(r) for r in alone.measure(task, candidates(task))]
        assert [outcome(r) for inp, r in together if inp.task is task] == expected
    wrong = [(i.task.args[0], i.config["knob"].val) for i, r in together if r.error_no]
    assert sorted(wrong) == [(2, 1), (2, 4), (3, 2)]


def test_a_template_a_te_graph_and_steps_are_measured_side_by_side(session):
    task = at.create("measure_test.product", (16,), target="c")
    _, arguments = task.instantiate(task.config_space.get(0))
    graph = Unrated(tuple(arguments), Target("c"), "graph")
    first = session.submit(task, candidates(task, range(3)))
    second = session.submit(graph, [ScheduleSteps(())])
    third = session.submit(times_task(5), candidates(times_task(5), [0]))
    results = [future.result(timeout=60) for future in [*first, *second, *third]]
    assert [r.error_no for r in results] == [0] * 5
    assert all(r.extra["verified"] for r in results)


def test_a_second_task_goes_on_with_the_processes_of_the_first(session):
    session.measure(times_task(2), candidates(times_task(2), [0]))
    devices, builders = list(session.runner.pids), set(session.builder.pids)
    assert devices
    session.measure(times_task(6), candidates(times_task(6), [0, 1]))
    assert session.runner.pids == devices
    # A builder that there was no work for yet may start now; none ends.
    assert builders <= set(session.builder.pids)
    assert len(session.builder.pids) <= 2


def test_workers_killed_between_and_under_trials_cost_no_trial(session):
    tasks = [times_task(7, wrong=[3]), times_task(8)]
    mixed = [inp for inputs in zip(*map(inputs_of, tasks), strict=True) for inp in inputs]
    results = []
    for number, (_, result) in enumerate(session.stream(mixed)):
        results.append(result)
        if number % 3 == 0 and (living := pids(session)):
            os.kill(living[number % len(living)], signal.SIGKILL)
    wrong = [r.error_no for r in results if r.error_no]
    assert wrong == [MeasureErrorNo.WRONG_ANSWER]


def test_two_runs_in_turns_on_one_session_find_what_each_finds_alone(session):
    tasks = [times_task(9, wrong=[0, 5]), times_task(10, wrong=[7])]
    alone = []
    for task in tasks:
        seen = []
        tuner = RandomTuner(task, seed=3)
        tuner.tune(KNOBS, measure_option(*local()), callbacks=[_noting(seen)], finalists=0)
        alone.append(seen)
    seen = [[], []]
    tuners = [RandomTuner(task, seed=3) for task in tasks]
    for trials in (2, 5, KNOBS):
        for tuner, notes in zip(tuners, seen, strict=True):
            tuner.tune(trials - len(notes), session, callbacks=[_noting(notes)], finalists=0)
    assert seen == alone


def _noting(seen):
    def note(tuner, inputs, results):
        seen.extend((i.key, outcome(r)) for i, r in zip(inputs, results, strict=True))

    return note


def test_runs_in_threads_share_a_session(session):
    results = {}

    def run(factor):
        tuner = GridSearchTuner(times_task(factor, wrong=[factor - 20]))
        results[factor] = tuner.tune(KNOBS, session, finalists=0)

    threads = [threading.Thread(target=run, args=(factor,)) for factor in (20, 21, 22)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert {f: (r.trials, r.failures) for f, r in results.items()} == {
        factor: (KNOBS, {"WRONG_ANSWER": 1}) for factor in (20, 21, 22)
    }


def test_a_run_that_is_cut_off_leaves_the_session_to_others(session):
    task = times_task(11)

    def stop(tuner, inputs, results):
        raise KeyboardInterrupt

    tuner = GridSearchTuner(task)
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(KNOBS, session, callbacks=[stop])
    assert tuner.cut_off
    before = pids(session)
    assert all(r.ok for r in session.measure(task, candidates(task)))
    assert pids(session) == before


def test_nothing_is_told_of_trials_that_a_closed_pipeline_gave_up(session):
    task, told = times_task(12), []
    pipeline = Pipeline(task, session, on_end=lambda inp, result: told.append(inp.key))
    pipeline.submit(inputs_of(task))
    pipeline.next_results()
    pipeline.close()
    known = list(told)
    ended = {inp.key for inp, _ in pipeline.leave()}
    assert {inp.key for inp in pipeline.cut_off()} | set(known) >= ended
    assert all(r.ok for r in session.measure(task, candidates(task)))
    assert told == known


def test_a_trial_can_be_given_up(session):
    task = times_task(13)
    futures = session.submit(task, candidates(task))
    given_up = [future.cancel() for future in futures[5:]]
    assert all(given_up)
    assert all(future.result(timeout=60).ok for future in futures[:5])
    with pytest.raises(CancelledError):
        futures[-1].result()


def test_giving_up_one_of_two_with_equal_code_leaves_the_other(session):
    at.template("measure_test.equal")(_equal)
    task = at.create("measure_test.equal", (), target="c")
    for _ in range(3):
        first, second = session.submit(task, candidates(task, [0, 1]))
        first.cancel()
        assert second.result(timeout=60).ok


def _equal():
    cfg = at.get_config()
    cfg.define_knob("knob", [0, 1])
    return SourceKernel(
        "equal",
        "void equal(float *y) { for (int i = 0; i < 4; i++) y[i] = 1; }",
        args=[arg("y", (4,), role="out")],
        reference=lambda: np.ones(4, "float32"),
        language="c",
    )


def test_a_candidate_that_is_asked_for_again_is_measured_again(session):
    task = times_task(14)
    first, second = (session.measure(task, candidates(task, [0]))[0] for _ in range(2))
    assert first.ok
    assert second.ok
    assert "same_code_as" not in second.extra
    assert second.timestamp > first.timestamp


def test_an_equal_task_with_another_reference_is_judged_by_its_own(session):
    task, again = times_task(15), times_task(15)
    assert session.measure(task, candidates(task, [0]))[0].ok
    again.reference = lambda x: x
    (result,) = session.measure(again, candidates(again, [1]))
    assert result.error_no == MeasureErrorNo.WRONG_ANSWER
    assert session.measure(task, candidates(task, [2]))[0].ok


def test_files_of_workloads_that_rest_go_when_they_are_too_many():
    builder, runner = local()
    runner._pool._most_bytes = 600
    with Session(builder, runner) as session:
        tasks = [times_task(factor) for factor in range(2, 8)]
        for _ in range(2):
            for task in tasks:
                assert session.measure(task, candidates(task, [0]))[0].extra["verified"]
                assert len(list(files(runner))) <= 2 * 3
        assert len(list(files(runner))) < len(tasks) * 3


def files(runner):
    for standing in runner._pool._states.values():
        yield from (p for p in standing._oracle._scratch.path.iterdir())


class Bound(PlainRunner):
    """Refuses trials of another task than the one it was set to, as an old script may."""

    def set_task(self, task):
        super().set_task(task)
        self.tasks = [*getattr(self, "tasks", []), task]

    def run(self, measure_inputs, build_results):
        assert all(inp.task is self.task for inp in measure_inputs)
        return super().run(measure_inputs, build_results)


def test_a_script_that_knows_one_task_gets_one_at_a_time():
    tasks = [times_task(2), times_task(3)]
    runner = Bound(delay_s=0.005)
    with Session(PlainBuilder(), runner) as session:
        assert not session.mixes_tasks
        mixed = [inp for inputs in zip(*map(inputs_of, tasks), strict=True) for inp in inputs]
        assert all(r.ok for _, r in session.stream(mixed[:8]))
        assert all(r.ok for _, r in session.stream(inputs_of(tasks[0])))
    assert runner.tasks == [*tasks] * 4 + [tasks[0]]


class Held(Runner):
    """Never ends a trial."""

    def submit(self, measure_input, build_result):
        return Future()


def test_a_session_is_a_measure_option(session):
    assert dict(session) == {"builder": session.builder, "runner": session.runner}
    assert Session.of(session) is session
    with pytest.raises(MeasureError, match="'builder' must be a Builder"):
        Session.of({"builder": None, "runner": PlainRunner()})
    with pytest.raises(MeasureError, match="Session: runner must be a Runner or 'local'"):
        Session("local", "remote")


def test_a_race_runs_on_a_session(session):
    task = times_task(16)
    result = session.race(inputs_of(task, [0, 1]), rounds=5, least_s=1e-5)
    assert result.winner.task is task


def test_a_reference_of_one_workload_keeps_no_other_waiting():
    """While the reference of one is computed for long, trials of another end."""
    slow, quick = times_task(17), times_task(18)
    begun, go_on = threading.Event(), threading.Event()

    def reference(x):
        begun.set()
        go_on.wait(20)
        return np.float32(17) * x

    slow.reference = reference
    runner = LocalRunner(number=1, repeat=1, cooldown_interval=0)
    with Session(LocalBuilder(n_parallel=1), runner) as session:
        session._gate.work = _no_gate  # as on a device that is not the host
        waiting = session.submit(slow, candidates(slow, [0]))
        assert begun.wait(20)
        assert session.measure(quick, candidates(quick, [0]))[0].ok
        assert not waiting[0].done()
        go_on.set()
        assert waiting[0].result(timeout=60).ok


def _no_gate():
    return threading.RLock()


def test_the_result_of_a_trial_that_failed_says_so_at_once():
    option = Session(PlainBuilder(failing=[1]), PlainRunner(failing=[2]))
    task = at.create("measure_test.scale", (64, 64), target="c")
    with option as session:
        results = session.measure(task, candidates(task, range(4)))
    assert [r.error_no for r in results] == [0, 2, 4, 0]
    assert isinstance(results[0], MeasureResult)
    assert time.time() - results[0].timestamp < 60
