"""Blocks with long loops begin first, each number once, and run beside short ones."""

from dataclasses import replace

import numpy as np
import pytest

from autotune import te
from autotune.codegen import kernel_of_schedule
from autotune.ir import Var
from autotune.lowering.passes.long_blocks import _back_and_forth, _in_order
from autotune.target import Target
from autotune.te.intrinsics import needed
from tests.fuzz.running import Job, run_batch
from tests.golden.case import bind
from tests.golden.cases.masked import masked_sum_in_chunks
from tests.ir.test_simplify import evaluate


def numbers(count, period, turn):
    """The numbers of the blocks that a device begins one after another."""
    block, rank = Var("blockIdx.x"), Var("rank")
    place = _back_and_forth(block, count, turn)
    order = _in_order(rank, count, period)
    return [evaluate(order, {rank: evaluate(place, {block: i})}) for i in range(count)]


@pytest.mark.parametrize("turn", [1, 3, 4, 7, 24, 100])
@pytest.mark.parametrize(("count", "period"), [(24, 24), (24, 8), (24, 1), (25, 5)])
def test_every_block_has_a_number_of_its_own(count, period, turn):
    assert sorted(numbers(count, period, turn)) == list(range(count))


def test_the_last_of_all_periods_come_first():
    assert [n % 4 for n in numbers(12, 4, 1)] == [3, 3, 3, 2, 2, 2, 1, 1, 1, 0, 0, 0]


def test_every_second_turn_is_reversed():
    assert [n % 4 for n in numbers(12, 4, 6)] == [3, 3, 3, 2, 2, 2, 0, 0, 0, 1, 1, 1]


def test_a_kernel_is_numbered_for_the_multiprocessors_of_its_device():
    target = Target("cuda -arch=sm_90")
    schedule, tensors = masked_sum_in_chunks()
    for count, text in ((1, "block_x = 3 - bx;"), (3, "block_x = 3 - rank;")):
        limits = replace(target.limits, sm_count=count)
        kernel = kernel_of_schedule(schedule, tensors, target, f"sum_{count}", limits)
        assert text in kernel.source


def sums_up_to_rows(n, tile, name, multiprocessors):
    """A kernel of sums of three tables, whose blocks have rows of one of them."""
    x, k = te.placeholder((3, n, n), name="X"), te.reduce_axis((0, n), "k")

    def up_to(h, i):
        value = te.if_then_else(k <= i, x[h, i, k], te.const(0.0))
        return te.sum(value, axis=k, where=needed(k <= i))

    y = te.compute((3, n), up_to, name="S")
    s = te.create_schedule(y.op)
    block, thread = s[y].split(y.op.axis[1], factor=tile)
    bind(s[y], bx=s[y].fuse(y.op.axis[0], block), tx=thread)
    target = Target("cuda -arch=sm_90")
    limits = replace(target.limits, sm_count=multiprocessors)
    return kernel_of_schedule(s, [x, y], target, name, limits)


def test_kernels_of_every_order_compute_all_rows(tmp_path):
    cases = [(n, turn) for n in (8, 18, 20) for turn in (1, 2, 4, 5, 132)]
    rng = np.random.default_rng(0)
    jobs = [
        Job(sums_up_to_rows(n, 4, f"order_{n}_{turn}", turn), [x.astype("float32")], i % 3)
        for i, (n, turn) in enumerate(cases)
        for x in [rng.integers(-9, 9, (3, n, n))]
    ]
    assert sum("rank" in job.kernel.source for job in jobs) == 6
    for job, got in zip(jobs, run_batch(jobs, tmp_path), strict=True):
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got[0], np.tril(job.inputs[0]).sum(-1))
