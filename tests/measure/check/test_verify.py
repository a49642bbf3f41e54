"""Verification: what is checked, against what, and that wrong answers never win."""

import logging
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import autotune.task as at
from autotune.errors import MeasureError
from autotune.kernel import SourceKernel, arg
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    Pipeline,
    VerifyPolicy,
    measure_option,
)
from autotune.measure.build.realise import realise
from autotune.measure.check import verify
from autotune.measure.check.expected import Expected
from autotune.measure.check.policy import verify_policy
from autotune.measure.check.verify import Oracle
from autotune.measure.run.value_files import read_values
from autotune.workload import Called
from tests.trials import inputs_of

SOURCE = """
void mix(const TYPE *x, TYPE *state, TYPE *y) {
  for (int r = 0; r < SLOW; r++)
    for (int i = 0; i < 4096; i++) { y[i] = x[i] + state[i]; }
  for (int i = 0; i < 4096; i++) state[i] = state[i] + 1;
  if (WRONG) y[0] = y[0] + 1;
}
"""


LASTING = """
#define _POSIX_C_SOURCE 200809L
#include <time.h>
void lasting(const float *x, float *y) {
  struct timespec t = {0, MS * 1000000};
  nanosleep(&t, 0);
  for (int i = 0; i < 64; i++) y[i] = x[i] + (MS > 100);
}
"""


@at.template("measure_test.mix")
def mix(dtype):
    cfg = at.get_config()
    cfg.define_knob("wrong", [0, 1])
    cfg.define_knob("slow", [1, 50, 60, 70, 80, 90, 100, 110, 120, 130])
    kind = {"float32": "float", "int32": "int", "float64": "double"}[dtype]
    return SourceKernel(
        "mix",
        SOURCE,
        defines={"TYPE": kind, "WRONG": cfg["wrong"].val, "SLOW": cfg["slow"].val},
        args=[arg("x", (4096,), dtype), arg("s", (4096,), dtype, "inout"),
              arg("y", (4096,), dtype, "out")],
        flags=["-fno-ipa-cp", "-O1"],
        reference=lambda x, s: (s + 1, x + s),
    )  # fmt: skip


def measured(task, indices, **options):
    option = measure_option(
        LocalBuilder(n_parallel=1), LocalRunner(cooldown_interval=0, number=1, **options)
    )
    results = []
    with Pipeline(task, option) as pipeline:
        for index in indices:
            pipeline.submit(inputs_of(task, [index]))
            results += [result for _, result in pipeline.next_results()]
    return results


@at.template("measure_test.lasting")
def lasting():
    """Kernels that take so long; all but the first are wrong."""
    cfg = at.get_config()
    cfg.define_knob("ms", [100, 101, 200])
    return SourceKernel(
        "lasting",
        LASTING,
        defines={"MS": cfg["ms"].val},
        args=[arg("x", (64,)), arg("y", (64,), role="out")],
        reference=lambda x: x,
    )


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_in_place_arguments_are_restored_and_all_outputs_compared(dtype):
    task = at.create("measure_test.mix", (dtype,), target="c")
    right, wrong = measured(task, [0, 1], verify="all")
    assert right.ok
    assert right.extra["verified"]
    assert wrong.error_no == MeasureErrorNo.WRONG_ANSWER
    assert wrong.error_msg.startswith("y: 1 of 4096 elements differ from the reference")


def test_a_wrong_answer_is_never_the_best():
    task = at.create("measure_test.mix", ("float32",), target="c")
    # Slow and right first: the fast wrong one would be a new best.
    slow, wrong, fast = measured(task, [18, 1, 0], verify=VerifyPolicy(sample=0.0))
    assert slow.ok
    assert wrong.error_no == MeasureErrorNo.WRONG_ANSWER
    assert fast.ok
    assert fast.extra["verified"]


def test_only_bests_and_a_sample_are_checked():
    task = at.create("measure_test.mix", ("float32",), target="c")
    fast, slow_and_wrong = measured(task, [0, 19], verify=VerifyPolicy(sample=0.0))
    assert fast.extra["verified"]
    assert slow_and_wrong.ok
    assert not slow_and_wrong.extra["verified"]
    _, caught = measured(task, [0, 19], verify="all")
    assert caught.error_no == MeasureErrorNo.WRONG_ANSWER


def test_verification_can_be_turned_off():
    task = at.create("measure_test.mix", ("float32",), target="c")
    (wrong,) = measured(task, [1], verify=False)
    assert wrong.ok
    assert not wrong.extra["verified"]


def test_what_comes_near_the_best_is_checked():
    # Slower by the clock than the best, but a race may prefer it.
    task = at.create("measure_test.lasting", (), target="c")
    right, near, far = measured(task, [0, 1, 2], verify=VerifyPolicy(sample=0.0))
    assert right.ok
    assert near.error_no == MeasureErrorNo.WRONG_ANSWER
    assert far.ok
    assert not far.extra["verified"]


def test_a_reference_that_is_not_used_is_not_called():
    task = at.create("measure_test.mix", ("float32",), target="c")
    task.reference = lambda x, s: 1 / 0
    (result,) = measured(task, [0], verify=False)
    assert result.ok
    with pytest.raises(MeasureError, match="its reference failed: ZeroDivisionError"):
        measured(task, [0])


def test_own_tolerances_replace_the_fitting_ones():
    task = at.create("measure_test.mix", ("float32",), target="c")
    (wrong,) = measured(task, [1], verify=VerifyPolicy(atol=1.5, rtol=0.0))
    assert wrong.ok
    assert wrong.extra["verified"]


def test_each_own_tolerance_replaces_its_part():
    found = Expected(np.array([1.0, 2.0, 0.0], np.float32), np.full(3, 1e-7, np.float32))
    assert VerifyPolicy().fitting(found) is found
    more = VerifyPolicy(atol=1e-5).fitting(found)
    assert np.allclose(more.bounds, 1.01e-5, atol=0)
    assert more.spread == found.spread
    own = VerifyPolicy(rtol=1e-3).fitting(found)
    size = np.sqrt(5 / 3)
    assert np.allclose(own.bounds, [1e-3 * size, 2e-3, 1e-3 * size], atol=0)
    assert own.spread == 1.0
    exact = VerifyPolicy(atol=2.0).fitting(Expected(np.arange(3)))
    assert np.array_equal(exact.bounds, [2, 2, 2])


def test_only_dtypes_of_floats_can_hold_sums():
    with pytest.raises(MeasureError, match="sums must be one of float16, bfloat16"):
        VerifyPolicy(sums="int8")


DOT = """
void dot(const _Float16 *a, const _Float16 *b, _Float16 *c) {
  for (int i = 0; i < 32; i++)
    for (int j = 0; j < 32; j++) {
      SUM s = 0;
      for (int k = FIRST; k < 1024; k++) s += (SUM)a[i * 1024 + k] * (SUM)b[j * 1024 + k];
      c[i * 32 + j] = s;
    }
}
"""


@at.template("measure_test.dot")
def dot(sums):
    cfg = at.get_config()
    cfg.define_knob("first", [0, 1, 16])
    return SourceKernel(
        "dot",
        DOT,
        defines={"SUM": sums, "FIRST": cfg["first"].val},
        args=[arg("a", (32, 1024), "float16"), arg("b", (32, 1024), "float16"),
              arg("c", (32, 32), "float16", "out")],
        reference=lambda a, b: a.astype("f4") @ b.astype("f4").T,
    )  # fmt: skip


def test_short_sums_of_a_kernel_written_by_hand_must_be_declared():
    wide, narrow = (at.create("measure_test.dot", (t,), target="c") for t in ("float", "_Float16"))
    right, one_missing, many_missing = measured(wide, [0, 1, 2], verify="all")
    assert right.extra["verified"]
    assert one_missing.error_no == many_missing.error_no == MeasureErrorNo.WRONG_ANSWER
    assert "with sums in float32" in measured(narrow, [0], verify="all")[0].error_msg
    declared = VerifyPolicy(sample=1.0, sums="float16")
    assert measured(narrow, [0], verify=declared)[0].extra["verified"]
    assert measured(narrow, [2], verify=declared)[0].error_no == MeasureErrorNo.WRONG_ANSWER


def test_given_inputs_replace_random_ones():
    task = at.create("measure_test.mix", ("float32",), target="c")
    ones = np.ones(4096, np.float32)
    assert measured(task, [0], ref_input=[ones, ones, ones])[0].ok
    with pytest.raises(MeasureError, match=r"ref_input: kernel 'mix' has 3 arguments, got 1"):
        measured(task, [0], ref_input=[ones])
    with pytest.raises(MeasureError, match=r"ref_input: argument 'x' has shape \(4096,\)"):
        measured(task, [0], ref_input=[ones[:5], ones, ones])


def test_the_sample_depends_on_the_configuration_alone():
    task = at.create("measure_test.mix", ("float32",), target="c")
    inputs = inputs_of(task, range(20))
    policy = VerifyPolicy(sample=0.5)
    chosen = [policy.sampled(i) for i in inputs]
    assert chosen == [policy.sampled(i) for i in inputs]
    assert 0 < sum(chosen) < 20
    assert all(VerifyPolicy(sample=1.0).sampled(i) for i in inputs)
    assert not any(VerifyPolicy(sample=0.0).sampled(i) for i in inputs)


def test_policies_are_read_from_what_users_write():
    assert verify_policy(True) == VerifyPolicy()
    assert verify_policy(False) == VerifyPolicy(best=False, sample=0.0)
    assert verify_policy("all").sample == 1.0
    assert verify_policy(0.5).sample == 0.5
    with pytest.raises(MeasureError, match="a share from 0 to 1"):
        verify_policy(2.0)


def broken(reference):
    task = at.create("measure_test.mix", ("float32",), target="c")
    inp = MeasureInput(task.target, task, task.config_space.get(0))
    task.reference = reference
    return inp, realise(inp).kernel


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (lambda x, s: 1 / 0, "its reference failed: ZeroDivisionError"),
        (
            lambda x, s: None,
            r"its reference returned None; it must return what the kernel writes \(",
        ),
        (lambda x, s: x, "its reference returned 1 arrays, the kernel writes 2"),
        (lambda x, s: (s, x[:7]), r"reference: argument 'y' has shape \(4096,\), got \(7,\)"),
        (lambda x, s: (s, x + 1j), "argument 'y' is float32, got complex64 values, which are not"),
        (lambda x, s: (s.astype(object), x), "argument 's' is float32, got object values"),
    ],
)
def test_a_broken_reference_stops_with_its_reason(reference, message):
    inp, kernel = broken(reference)
    oracle = Oracle()
    with pytest.raises(MeasureError, match=message):
        oracle.data(inp, kernel)
    oracle.close()


def test_reference_data_is_made_once_and_removed():
    calls = []

    def reference(x, s):
        calls.append(1)
        return s + 1, x + s

    inp, kernel = broken(reference)
    oracle = Oracle(seed=3)
    data = oracle.data(inp, kernel)
    assert oracle.data(inp, kernel) is data
    assert len(calls) == 1
    x, s = (read_values(path, "float32") for path in data.inputs)
    assert np.all(x != 0)
    assert np.array_equal(read_values(data.checks[1].path, "float32"), x + s)
    oracle.close()
    assert not any(Path(p).exists() for p in [*data.inputs, *(c.path for c in data.checks)])


def test_a_reference_that_knows_the_knobs_is_asked_for_each_choice_of_them():
    def made(knob):
        return Called(lambda x, s: (s + knob, x + s))

    inp, kernel = broken(lambda x, s: (s, x))
    oracle = Oracle()
    one, two = (oracle.data(inp, kernel, reference=made(knob)) for knob in (1, 2))
    assert one.inputs == two.inputs
    first, second = (read_values(data.checks[0].path, "float32") for data in (one, two))
    np.testing.assert_allclose(second, first + 1)
    assert oracle.data(inp, kernel, reference=made(1)) is one
    assert oracle.known(kernel, reference=made(2)) is two
    oracle.close()


@at.template("verify.reads_knobs")
def reads_knobs():
    cfg = at.get_config()
    cfg.define_knob("step", [1, 2])
    cfg.define_split("tile", 4, num_outputs=2)
    sizes = cfg["tile"].size
    return SourceKernel(
        "f",
        "void f(float* y) { y[0] = STEP * TILE; }",
        defines={"STEP": cfg["step"].val, "TILE": sizes[1]},
        args=[arg("y", (1,), role="out")],
        reference=lambda: np.array([cfg["step"].val * sizes[1]], "float32"),
    )


def test_a_reference_may_read_the_configuration_of_its_candidate():
    task = at.create("verify.reads_knobs", (), "llvm")
    oracle = Oracle()
    for index in range(len(task.config_space)):
        inp = MeasureInput(task.target, task, task.config_space.get(index))
        made = realise(inp)
        data = oracle.data(inp, made.kernel, reference=made.reference)
        expected = inp.config["step"].val * inp.config["tile"].size[1]
        assert read_values(data.checks[0].path, "float32") == [expected]
    oracle.close()


def test_of_many_references_the_latest_are_kept():
    inp, kernel = broken(lambda x, s: (s, x))
    oracle = Oracle()
    kept = [
        oracle.data(inp, kernel, reference=Called(lambda x, s, n=n: (s + n, x)))
        for n in range(verify._KEPT + 2)
    ]
    paths = [Path(data.checks[0].path) for data in kept]
    assert [path.exists() for path in paths] == [False] * 2 + [True] * verify._KEPT
    held = sum(path.stat().st_size for path in paths[0].parent.iterdir())
    assert oracle.bytes == held
    oracle.close()


def test_a_knob_may_choose_the_reference():
    inp, kernel = broken(lambda x, s: (s, x))
    oracle, chosen = Oracle(), (lambda x, s: (s, x), lambda x, s: (s + 1, x))
    one, other = [oracle.data(inp, kernel, reference=Called(each)) for each in chosen]
    assert one.checks[0].path != other.checks[0].path
    oracle.close()


def test_inputs_without_a_reference_serve_those_with_one():
    inp, kernel = broken(lambda x, s: (s + 1, x + s))
    oracle = Oracle()
    bare = oracle.data(inp, kernel, expected=False)
    assert bare.checks == ()
    whole = oracle.data(inp, kernel)
    assert whole.inputs == bare.inputs
    assert len(whole.checks) == 2
    assert oracle.data(inp, kernel, expected=False) is whole
    oracle.close()


def test_a_bfloat16_reference_is_kept_with_its_values():
    inp, kernel = broken(lambda x, s: (s + 1, (x + s).astype(ml_dtypes.bfloat16)))
    oracle = Oracle()
    data = oracle.data(inp, kernel)
    x, s = (read_values(path, "float32") for path in data.inputs)
    made, bounds = (
        read_values(p, "float32") for p in (data.checks[1].path, data.checks[1].bounds)
    )
    rounded = (x + s).astype(ml_dtypes.bfloat16).astype("f4")
    assert np.all(abs(made - rounded) <= bounds)
    assert np.all(bounds <= 0.01 * abs(made) + 1e-6)
    oracle.close()


@at.template("measure_test.unreferenced")
def unreferenced():
    return SourceKernel(
        "copy",
        "void copy(const float *x, float *y) { *y = *x; }",
        args=[arg("x", (1,)), arg("y", (1,), role="out")],
    )


def test_a_kernel_without_a_reference_is_not_verified_and_that_is_said(caplog):
    task = at.create("measure_test.unreferenced", (), target="c")
    with caplog.at_level(logging.WARNING, "autotvm"):
        (result,) = measured(task, [0], verify="all")
    assert result.ok
    assert not result.extra["verified"]
    said = [r.message for r in caplog.records if "not verified" in r.message]
    assert said == [
        "task measure_test.unreferenced: results are not verified: its kernels have no reference"
    ]
