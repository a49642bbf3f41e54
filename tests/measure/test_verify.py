"""Verification: what is checked, against what, and that wrong answers never win."""

from pathlib import Path

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
from autotune.measure.realise import realise
from autotune.measure.values import read_values
from autotune.measure.verify import Oracle, verify_policy

SOURCE = """
void mix(const TYPE *x, TYPE *state, TYPE *y) {
  for (int r = 0; r < SLOW; r++)
    for (int i = 0; i < 4096; i++) { y[i] = x[i] + state[i]; }
  for (int i = 0; i < 4096; i++) state[i] = state[i] + 1;
  if (WRONG) y[0] = y[0] + 1;
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
            pipeline.submit([MeasureInput(task.target, task, task.config_space.get(index))])
            results += [result for _, result in pipeline.next_results()]
    return results


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


def test_own_tolerances_replace_the_fitting_ones():
    task = at.create("measure_test.mix", ("float32",), target="c")
    (wrong,) = measured(task, [1], verify=VerifyPolicy(atol=1.5, rtol=0.0))
    assert wrong.ok
    assert wrong.extra["verified"]


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
    inputs = [MeasureInput(task.target, task, task.config_space.get(i)) for i in range(20)]
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
    return inp, realise(inp)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (lambda x, s: 1 / 0, "its reference failed: ZeroDivisionError"),
        (lambda x, s: x, "its reference returned 1 arrays, the kernel writes 2"),
        (lambda x, s: (s, x[:7]), r"reference: argument 'y' has shape \(4096,\), got \(7,\)"),
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
    assert np.array_equal(read_values(data.expected[1], "float32"), x + s)
    oracle.close()
    assert not any(Path(p).exists() for p in data.inputs + data.expected)
