"""Functions are told apart by the values that they captured."""

from functools import partial

import numpy as np

from autotune.measure.check.captured import captured


def plain(x):
    return x


def of(knob, helper=plain, kept=None):
    return lambda x: helper(x) + knob + (kept is None)


def test_numbers_of_a_closure_tell_functions_apart():
    assert captured(of(1)) == captured(of(1)) != captured(of(2))
    assert captured(of(np.int32(1))) != captured(of(np.int32(2)))
    assert captured(plain) == ()


def test_functions_in_a_closure_count_with_theirs():
    assert captured(of(0, of(1))) != captured(of(0, of(2)))
    assert captured(partial(plain, 1)) != captured(partial(plain, 2))


def test_knobs_in_a_dict_count_and_what_a_function_fills_does_not():
    assert captured(of(0, kept={"tile": 8})) != captured(of(0, kept={"tile": 16}))
    assert captured(of(0, kept=[1])) == captured(of(0, kept=[1, 2]))
    assert captured(of(0, kept=np.zeros(3))) == captured(of(0, kept=np.ones(3)))


def test_a_function_that_calls_itself_is_read_once():
    def turn(n):
        return 0 if n == 0 else turn(n - 1)

    assert captured(turn) == ()
