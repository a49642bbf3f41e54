"""The hash of a schedule is that of the logs that have it."""

import sys

import autotune.driver.kernel_hash  # noqa: F401 - its name is that of a function as well
from autotune import te
from autotune.kernel import SourceKernel, arg
from autotune.target import Target
from tests.te.graphs import padded_convolution
from tests.te.test_steps import every_primitive

hashing = sys.modules["autotune.driver.kernel_hash"]


def test_the_hash_of_a_schedule_is_that_of_the_logs_that_have_it():
    """Stages by place and splits in two, as steps were when the first logs were written."""
    s = every_primitive(view=False)
    assert hashing.schedule_hash(s, list(s.outputs[0].outputs)) == "4e1803b77a8c9c46"
    *_, relu = padded_convolution()
    s = te.create_schedule(relu.op)
    y, x = relu.op.axis[-2:]
    s[relu].split(y, nparts=3)
    s[relu].split(x, 4)
    assert hashing.schedule_hash(s, [relu]) == "09fbcfa68c3717fc"


def test_a_split_in_several_has_the_hash_of_splits_in_two():
    *_, relu = padded_convolution()
    one, two = te.create_schedule(relu.op), te.create_schedule(relu.op)
    one[relu].multi_split(relu.op.axis[-1], [2, 4])
    _, inner = two[relu].split(relu.op.axis[-1], 8)
    two[relu].split(inner, 4)
    assert hashing.schedule_hash(one, [relu]) == hashing.schedule_hash(two, [relu])


def test_recurrences_that_compute_different_steps_have_different_hashes():
    def hashed(factor):
        x, state = te.placeholder((5, 8), name="x"), te.placeholder((5, 8), name="s")
        first = te.compute((1, 8), lambda t, i: x[t, i], name="first")
        step = te.compute((5, 8), lambda t, i: state[t - 1, i] * factor + x[t, i], name="step")
        y = te.scan(first, step, state, name="y")
        return hashing.schedule_hash(te.create_schedule(y.op), [x, y])

    assert hashed(2.0) == hashed(2.0) != hashed(3.0)


def test_a_launch_that_was_left_out_is_hashed_as_that_of_one_thread():
    text = 'extern "C" __global__ void f(float *y) { y[0] = 1; }'
    args = [arg("y", (1,), role="out")]
    given = SourceKernel("f", text, args, grid=1, block=1)
    hashes = {
        hashing.kernel_hash(one, Target("cuda -arch=sm_90"))
        for one in (given, SourceKernel("f", text, args))
    }
    assert hashes == {"2041cda3cc6070a9"}
