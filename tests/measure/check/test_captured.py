"""Functions are told apart by the values that they captured."""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from autotune.measure.check.captured import captured
from autotune.task import OtherOptionEntity, SplitEntity


def plain(x):
    return x


def of(knob, helper=plain, kept=None):
    return lambda x: helper(x) + knob + (kept is None)


def test_numbers_of_a_closure_tell_functions_apart():
    assert captured(of(1)) == captured(of(1)) != captured(of(2))
    assert captured(of(np.int32(1))) != captured(of(np.int32(2)))
    assert captured(plain) == captured(plain)
    assert len(captured(plain)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x + 1, lambda x: x + 2), (np.maximum, np.add), (max, min),
        (of(0, np.float32), of(0, np.float64)), (of(0, range(3)), of(0, range(4))),
        (of(0, kept=[[1], [2, 3]]), of(0, kept=[[1, 2], [3]])),
    ],
)  # fmt: skip
def test_functions_of_which_a_knob_may_choose_one_are_told_apart(one, other):
    assert captured(one) == captured(one) != captured(other)


def test_functions_in_a_closure_count_with_theirs():
    assert captured(of(0, of(1))) != captured(of(0, of(2)))
    assert captured(partial(plain, 1)) != captured(partial(plain, 2))


@dataclass
class Tiles:
    width: int

    def sums(self, x):
        return x + self.width


@dataclass(slots=True)
class Slots:
    width: int


@pytest.mark.parametrize(
    "kept",
    [
        lambda tile: {"tile": tile},
        lambda tile: [4, tile],
        lambda tile: {4, tile},
        lambda tile: np.full(3, tile),
        lambda tile: np.zeros(tile),
        lambda tile: SimpleNamespace(tile=tile),
        Tiles,
        Slots,
        lambda tile: Tiles(tile).sums,
        OtherOptionEntity,
        lambda tile: SplitEntity([4, tile]),
    ],
)
def test_knobs_in_what_a_closure_holds_count(kept):
    assert captured(of(0, kept=kept(8))) == captured(of(0, kept=kept(8)))
    assert captured(of(0, kept=kept(8))) != captured(of(0, kept=kept(16)))


def test_long_lists_large_arrays_and_other_objects_are_not_read():
    assert captured(of(0, kept=[8] * 2000)) == captured(of(0, kept=[9] * 2000))
    assert captured(of(0, kept=np.zeros(1 << 20))) == captured(of(0, kept=np.ones(1 << 20)))
    assert captured(of(0, kept=object())) == captured(of(0, kept=object()))


def test_a_function_that_calls_itself_is_read_once():
    def turn(n):
        return 0 if n == 0 else turn(n - 1)

    assert len(captured(turn)) == 1
