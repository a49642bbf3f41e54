"""One trial in the process of its device: what is checked, and who is to blame."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.kernel import SourceKernel, arg
from autotune.measure.run.device_state import DeviceState
from autotune.measure.run.jobs import Check, RaceJob, RunJob
from autotune.measure.run.replies import Failed
from autotune.measure.run.timing import CLOSE, TimingPolicy
from autotune.measure.run.trial import _must_check, run_job
from autotune.measure.types import MeasureErrorNo
from autotune.runtime import compile_kernel, cpu, summarize
from autotune.runtime.host.stopwatch import Stopwatch
from autotune.target import Target

N = 64
TWICE = "for (int i = 0; i < N; i++) y[i] = 2 * x[i];"
# So long that a sample of one run lasts long enough.
SLOWLY = f"for (volatile int i = 0; i < 1000000; i++) {{}} {TWICE}"


class Trials:
    """Runs kernels of one task one after another, as a process does that owns a GPU."""

    def __init__(self, folder):
        self.folder = folder
        self.state = DeviceState(cpu())

    def file(self, name, values):
        np.save(self.folder / f"{name}.npy", values)
        return str(self.folder / f"{name}.npy")

    def job(self, body, expected, x, check="always", best_s=None):
        """Return what runs ``void f(x, y)`` with this body; the dtype is that of ``x``."""
        dtype = x.dtype.name
        kind = {"float32": "float", "bool": "_Bool", "uint8": "unsigned char", "int32": "int"}
        kernel = SourceKernel(
            "f",
            "#include <math.h>\n"
            f"static int calls; void f({kind[dtype]} *x, {kind[dtype]} *y) {{ calls++; {body} }}",
            [arg("x", (N,), dtype), arg("y", (N,), dtype, role="out")],
            {"N": N},
        ).kernel("c")
        return RunJob(
            artifact=compile_kernel(kernel, Target("c"), out_dir=self.folder).artifact,
            kernel=kernel,
            timeout_s=10,
            timing=TimingPolicy(number=1, repeat=1),
            inputs=(self.file("x", x),),
            checks=(Check("y", self.file("y", np.asarray(expected, x.dtype))),),
            check=check,
            best_s=best_s,
        )

    def run(self, body, expected, x, check="always", best_s=None, state=None):
        """Run it, and say what came of it."""
        job = self.job(body, expected, x, check, best_s)
        reply = run_job(state or self.state, job, lambda event: None)
        if isinstance(reply, Failed):
            assert reply.error_no == MeasureErrorNo.WRONG_ANSWER, reply
            return reply.message
        return "verified" if reply.verified else "not checked"


@pytest.fixture
def trials(tmp_path):
    return Trials(tmp_path)


X = np.linspace(-1, 1, N).astype(np.float32)


def test_a_right_kernel_is_verified(trials):
    assert trials.run(TWICE, 2 * X, X) == "verified"


def test_a_kernel_is_not_blamed_for_inputs_that_another_one_overwrote(trials):
    assert trials.run(TWICE + "x[0] = 7;", 2 * X, X, check="never") == "not checked"
    assert trials.run(TWICE, 2 * X, X) == "verified"


def test_a_kernel_that_overwrites_what_it_reads_is_blamed(trials):
    destroy = TWICE + "for (int i = 0; i < N; i++) x[i] = 0;"
    for _ in range(2):  # on fresh inputs, and on inputs that others have used
        told = trials.run(destroy, 2 * X, X)
        assert told.startswith("it overwrites what it only reads by its declaration: x; y: ")


def test_a_right_answer_does_not_excuse_what_was_overwritten(trials):
    # In the last of its calls, when the outputs are written.
    last = SLOWLY + "if (calls == 3) x[7] = 5;"
    assert trials.run(last, 2 * X, X) == "it overwrites what it only reads by its declaration: x"


def test_what_is_timed_is_compared_and_runs_no_more_often_for_that(trials):
    # Two runs to warm up, each over a poison of its own, and one sample of one run.
    assert trials.run(SLOWLY + "if (calls > 3) y[0] = 7;", 2 * X, X) == "verified"
    for right in (1, 2):
        idle = f"if (calls <= {right}) {{ {SLOWLY} }}"
        assert trials.run(idle, 2 * X, X).startswith("y: ")
    assert trials.run(SLOWLY + "if (calls == 3) y[5] = 7;", 2 * X, X).startswith("y: ")


class SteadyStopwatch(Stopwatch):
    """Makes the runs, and times them as an idle machine does: the clock costs ten runs."""

    RUN_S, CLOCK_S = 3e-9, 30e-9

    def run(self, structs, count, number):
        super().run(structs, count, number)
        self.seconds = self.CLOCK_S + number * self.RUN_S

    clocks = None


def test_a_trial_and_a_race_agree_about_a_kernel_of_nanoseconds(trials, monkeypatch):
    monkeypatch.setattr("autotune.runtime.host.executable.Stopwatch", SteadyStopwatch)
    job = trials.job("y[0] = 2 * x[0];", 2 * X, X, check="never")
    trial = run_job(trials.state, job, lambda event: None)
    race = run_job(trials.state, RaceJob((job,), 5, 2e-3, 10, 0), lambda event: None)
    for timing in (trial.timing, race.timings[0]):
        assert timing.number * min(timing.samples_s) >= 49e-6
        assert timing.median == pytest.approx(SteadyStopwatch.RUN_S, rel=1e-3)


def test_a_kernel_of_nanoseconds_is_timed_without_the_overhead_of_calls(trials):
    job = trials.job("y[0] = 2 * x[0];", 2 * X, X, check="never")
    race = RaceJob((job,), 5, 2e-3, 10, 0)
    assert run_job(trials.state, race, lambda event: None).timings[0].median < 1e-6


def test_of_runs_on_cold_caches_counts_how_long_the_caches_take(trials):
    job = replace(trials.job("y[0] = 2 * x[0];", 2 * X, X, check="never"), flush=True)
    assert 1 < run_job(trials.state, job, lambda event: None).timing.number < 1000
    [raced] = run_job(trials.state, RaceJob((job,), 3, 2e-3, 10, 0), lambda event: None).timings
    assert 1 < raced.number < 2000


def test_clock_overhead_condemns_no_kernel_of_nanoseconds(trials):
    # A quarter of what one run between two looks at the clock takes.
    job = trials.job("y[0] = 2 * x[0];", 2 * X, X, check="never")
    best_s = min(run_job(trials.state, job, lambda event: None).timing.median for _ in range(3))
    again = trials.job("y[0] = 2 * x[0];", 2 * X, X, check="never", best_s=best_s)
    assert not run_job(trials.state, again, lambda event: None).timing.cut_short


@pytest.mark.parametrize("best_s", [1e-12, 1e-7, None])
@pytest.mark.parametrize("sets", [1, 3])
def test_what_is_cut_short_or_goes_round_many_sets_is_judged_by_runs_it_made(
    trials, monkeypatch, best_s, sets
):
    monkeypatch.setattr("autotune.runtime.host.executable.rotation", lambda buffers: sets)
    assert trials.run(TWICE, 2 * X, X, best_s=best_s) == "verified"
    assert trials.run(TWICE + "y[5] = 7;", 2 * X, X, best_s=best_s).startswith("y: 1 of 64")


@pytest.mark.parametrize("where", [-1, -64, -16384, N, N + 1, N + 16383])
def test_what_is_written_beside_an_output_is_found(trials, where):
    told = trials.run(TWICE + f"y[{where}] = 0;", 2 * X, X)
    assert told == "it writes outside of its arguments, around y"
    assert trials.run(TWICE, 2 * X, X) == "verified"


def test_one_byte_beside_an_output_is_found(trials):
    byte = TWICE + f"((unsigned char *)y)[{4 * N}] ^= 1;"
    assert "around y" in trials.run(byte, 2 * X, X)


def test_what_another_wrote_beside_an_output_is_not_blamed_on_the_next(trials):
    assert trials.run(TWICE + "y[-1] = 0;", 2 * X, X, check="never") == "not checked"
    assert trials.run(TWICE, 2 * X, X) == "verified"


def test_a_kernel_on_fresh_inputs_has_nobody_else_to_blame(trials):
    # Only the first of its calls, one that is timed, does the damage.
    once = TWICE + "if (calls == 1) x[0] = 0.5f;"
    assert "it overwrites what it only reads" in trials.run(once, 2 * X, X)


def test_a_wrong_answer_on_intact_inputs_stands(trials):
    # The first of its calls, which is compared and not the last one.
    once_wrong = TWICE + "if (calls == 1) y[5] = 7;"
    assert trials.run(TWICE, 2 * X, X) == "verified"
    told = "its outputs differ from the reference in some runs and not in others"
    assert trials.run(once_wrong, 2 * X, X) == told


def test_every_other_answer_wrong_is_found(trials):
    for parity in (0, 1):
        flaky = TWICE + f"if (calls % 2 == {parity}) y[5] = 7;"
        told = trials.run(flaky, 2 * X, X)
        assert told.startswith("y: 1 of 64 elements differ")
        assert "two more runs with equal arguments differ in y: it is not deterministic" in told
    assert "not deterministic" not in trials.run(TWICE + "y[5] = 7;", 2 * X, X)


def test_a_wrong_kernel_that_only_rounds_otherwise_in_each_run_is_deterministic(trials):
    rounded = TWICE + "y[5] = 7; y[6] += calls % 2 ? 1e-6f : 0;"
    job = trials.job(rounded, 2 * X, X)
    bounds = trials.file("bounds", np.full(N, 1e-5, "float32"))
    job = replace(job, checks=(replace(job.checks[0], bounds=bounds),))
    told = run_job(trials.state, job, lambda event: None).message
    assert told.startswith("y: 1 of 64 elements differ")
    assert "deterministic" not in told


def test_truth_that_is_never_stored_is_missed(trials):
    x = np.arange(N) % 3 > 0
    assert trials.run("for (int i = 0; i < N; i++) y[i] = x[i];", x, x) == "verified"
    only_false = "for (int i = 0; i < N; i++) if (!x[i]) y[i] = 0;"
    only_true = "for (int i = 0; i < N; i++) if (x[i]) y[i] = 1;"
    for partial in (only_false, only_true):
        assert "of 64 elements differ" in trials.run(partial, x, x)


def test_nan_that_is_never_stored_is_missed(trials):
    with np.errstate(all="ignore"):
        roots = np.sqrt(X)
    whole = "for (int i = 0; i < N; i++) y[i] = sqrtf(x[i]);"
    partial = "for (int i = 0; i < N; i++) if (x[i] >= 0) y[i] = sqrtf(x[i]);"
    assert trials.run(whole, roots, X) == "verified"
    assert trials.run(partial, roots, X).startswith("y: 32 of 64 elements differ")


@pytest.mark.parametrize("value", [-1, -1515870811])  # what either poison reads as
def test_a_result_that_looks_like_poison_must_be_stored_too(trials, value):
    x = np.full(N, value, np.int32)
    assert trials.run("for (int i = 0; i < N; i++) y[i] = x[i];", x, x) == "verified"
    assert "1 of 64" in trials.run("for (int i = 1; i < N; i++) y[i] = x[i];", x, x)


def job_of(check, best_s):
    y = (Check("y", ""),)
    return RunJob("", None, 1, TimingPolicy(), (), y, check, best_s)


def test_whatever_may_win_is_checked():
    skewed = summarize([1.0, 1.0, 1.0, 1.6, 1.6], 1)
    assert skewed.median == 1.0
    assert _must_check(job_of("best", None), skewed)
    # By what all trials are ranked by: the median.
    assert _must_check(job_of("best", 1.0 / CLOSE + 0.001), skewed)
    assert not _must_check(job_of("best", 1.0 / CLOSE - 0.001), skewed)
    assert _must_check(job_of("always", 0.1), skewed)
    assert not _must_check(job_of("never", None), skewed)
