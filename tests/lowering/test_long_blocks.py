"""Blocks with long loops begin first, each number once, and run beside short ones."""

from dataclasses import replace

import pytest

from autotune.codegen import kernel_of_schedule
from autotune.ir import Var
from autotune.lowering.passes.long_blocks import _back_and_forth, _in_order
from autotune.target import Target
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
