import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.utils.math import ceil_div, divisors, powers_of_two, round_up
from autotune.utils.si import scale


@given(st.integers(1, 5000))
def test_divisors_are_all_and_only_the_divisors(n):
    assert divisors(n) == [d for d in range(1, n + 1) if n % d == 0]


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_ceil_div_rounds_up(a, b):
    assert ceil_div(a, b) * b >= a > (ceil_div(a, b) - 1) * b


@pytest.mark.parametrize(
    ("n", "multiple", "rounded"), [(0, 4, 0), (1, 4, 4), (4, 4, 4), (9, 4, 12)]
)
def test_round_up_gives_the_next_multiple(n, multiple, rounded):
    assert round_up(n, multiple) == rounded


def test_powers_of_two_stop_at_the_number():
    assert powers_of_two(12) == [1, 2, 4, 8]
    assert powers_of_two(16)[-1] == 16


def test_si_prefixes_scale_both_ways():
    assert scale(2e9, "G") == 2.0
    assert scale(0.003, "m") == pytest.approx(3.0)


def test_an_unknown_prefix_is_refused():
    with pytest.raises(ValueError, match="got 'Q'"):
        scale(1, "Q")
