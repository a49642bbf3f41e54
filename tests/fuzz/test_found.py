"""What random schedules once found, in the smallest form that shows it."""

import numpy as np
import pytest

from autotune import te
from autotune.codegen import kernel_of_schedule
from autotune.target import Target
from tests.fuzz.check import Trial, run
from tests.fuzz.programs import Program
from tests.fuzz.workloads import Workload


def check(schedule, workload, language, tmp_path):
    """Run a schedule and compare it with numpy."""
    trial = Trial(1, "found", language, workload, schedule)
    trial.kernel = kernel_of_schedule(schedule, workload.args, Target(language), "found")
    run([trial], tmp_path)
    assert not trial.failure, trial.report()


def bound(stage, **axes):
    for tag, axis in axes.items():
        word = {"b": "blockIdx", "t": "threadIdx"}[tag[0]]
        stage.bind(axis, te.thread_axis(f"{word}.{tag[1]}"))


def test_an_expression_used_twice_follows_the_loops(tmp_path):
    x, mean = te.placeholder((4, 16), name="X"), te.placeholder((4,), name="mean")

    def body(i, j):
        scaled = mean[i] / 16.0
        return (x[i, j] - scaled) * (scaled + 1.0)

    y = te.compute((4, 16), body, name="Y")
    s = te.create_schedule(y.op)
    s[y].fuse(*s[y].op.axis)

    def reference(a, m):
        scaled = m[:, None] / 16
        return (a - scaled) * (scaled + 1)

    check(s, Workload((x, mean), (y,), reference), "c", tmp_path)


@pytest.mark.parametrize("language", ["c", "cuda"])
def test_a_stage_read_by_a_reduction_and_by_another_can_be_inline(language, tmp_path):
    x = te.placeholder((8, 16), name="X")
    e = te.compute((8, 16), lambda i, j: te.exp(x[i, j]), name="e")
    k = te.reduce_axis((0, 16), "k")
    total = te.compute((8,), lambda i: te.sum(e[i, k], axis=k), name="total")
    y = te.compute((8, 16), lambda i, j: e[i, j] / total[i], name="Y")
    s = te.create_schedule(y.op)
    s[e].compute_inline()
    if language == "cuda":
        bound(s[total], tx=total.op.axis[0])
        bound(s[y], bx=y.op.axis[0], tx=y.op.axis[1])
    reference = lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True)
    check(s, Workload((x,), (y,), reference), language, tmp_path)


def test_what_threads_compute_for_each_other_is_shared_also_without_blocks(tmp_path):
    x = te.placeholder((8, 8), name="X")
    i, j = te.reduce_axis((0, 8), "i"), te.reduce_axis((0, 8), "j")
    y = te.compute((), lambda: te.sum(x[i, j], axis=[i, j]), name="Y")
    s = te.create_schedule(y.op)
    _, inner = s[y].split(i, factor=16)
    part = s.rfactor(y, inner)
    outer, lane = s[y].split(s[y].op.reduce_axis[0], factor=64)
    bound(s[y], tx=lane)
    s[part].compute_at(s[y], outer)
    _, lane = s[part].split(s[part].op.axis[0], factor=64)
    bound(s[part], tx=lane)
    check(s, Workload((x,), (y,), lambda a: a.sum(), 1e-3), "cuda", tmp_path)


@pytest.mark.parametrize("ahead", ["double_buffer", "async_copy"])
def test_a_stage_fetched_ahead_may_have_a_stage_computed_in_it(ahead, tmp_path):
    x = te.placeholder((64, 32), name="X")
    twice = te.compute((64, 32), lambda i, j: x[i, j] * 2.0, name="twice")
    k = te.reduce_axis((0, 32), "k")
    y = te.compute((64,), lambda i: te.sum(twice[i, k], axis=k), name="Y")
    s = te.create_schedule(y.op)
    shared = s.cache_read(twice, "shared", [y])
    outer, inner = s[y].split(y.op.axis[0], factor=16)
    bound(s[y], bx=outer, tx=inner)
    ko, _ = s[y].split(y.op.reduce_axis[0], factor=8)
    s[shared].compute_at(s[y], ko)
    bound(s[shared], tx=s[shared].op.axis[0])
    s[twice].compute_at(s[shared], s[shared].op.axis[1])
    getattr(s[shared], ahead)()
    reference = lambda a: (a * 2).sum(1)
    check(s, Workload((x,), (y,), reference, 1e-3), "cuda", tmp_path)


# What C computes as an `int`, or takes for one, is of the dtype that te says: dtype, numbers,
# expression, result.
OF_DTYPES = {
    "popcount of negative int16": (
        "int16", [-1, -32768], lambda x: te.popcount(x), [16, 1],
    ),
    "popcount of int64, shifted": (
        "int64", [3, -1], lambda x: te.popcount(x) << te.const(40, "int64"), [2 << 40, 64 << 40],
    ),
    "popcount of uint32, less one": (
        "uint32", [0, 3], lambda x: te.popcount(x) - te.const(1, "uint32") > x, [True, False],
    ),
    "not of uint8": ("uint8", [0, 250], lambda x: ~x // te.const(16, "uint8"), [15, 0]),
    "shift of uint8": (
        "uint8", [200, 1], lambda x: (x << te.const(1, "uint8")) > te.const(150, "uint8"),
        [False, False],
    ),
    "minus the least int8": ("int8", [-128, 5], lambda x: -x < te.const(0, "int8"), [True, True]),
    "absolute value of the least int8": (
        "int8", [-128, -5], lambda x: te.abs(x).astype("int32"), [-128, 5],
    ),
    "least int8 by -1": (
        "int8", [-128, 5], lambda x: te.truncdiv(x, te.const(-1, "int8")).astype("int32"),
        [-128, -5],
    ),
    "least int8 by -1, rounded down": (
        "int8", [-128, 5], lambda x: te.floordiv(x, te.const(-1, "int8")).astype("int32"),
        [-128, -5],
    ),
    "uint32 divided": (
        "uint32", [4000000000, 7], lambda x: te.floordiv(x, te.const(7, "uint32")), [571428571, 1],
    ),
    "uint64, remainder": (
        "uint64", [2**64 - 1, 9], lambda x: te.floormod(x, te.const(7, "uint64")), [1, 2],
    ),
    "not of a uint64 constant": (
        "uint64", [0, 5], lambda x: te.max(x, ~te.const(3, "uint64")), [2**64 - 4, 2**64 - 4],
    ),
    "the least int64, added": (
        "int64", [5, -1], lambda x: (te.max(x, te.const(0, "int64")) + te.const(-(2**63), "int64"))
        < te.const(0, "int64"), [True, True],
    ),
    "zeros of both signs": (
        "float64", [1, -1], lambda x: te.max(x / 0.0, -(x / -0.0)), [np.inf, -np.inf],
    ),
    "a constant bool": (
        "int8", [0, 3], lambda x: te.const(True, "bool").astype("int8") + x, [1, 4],
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("language", ["c", "cuda"])
@pytest.mark.parametrize("case", OF_DTYPES)
def test_operators_compute_in_the_dtype_of_their_operands(case, language, tmp_path):
    dtype, numbers, body, wanted = OF_DTYPES[case]
    x = te.placeholder((2,), name="X", dtype=dtype)
    y = te.compute((2,), lambda i: body(x[i]), name="Y")
    s = te.create_schedule(y.op)
    if language == "cuda":
        bound(s[y], tx=y.op.axis[0])
    given = np.array(numbers, dtype)
    workload = Program((x,), (y,), lambda _: np.array(wanted, y.dtype), 0, (given,))
    check(s, workload, language, tmp_path)
