"""Times in turns."""

import itertools

import pytest

from benchmarks.rivals import set_up
from benchmarks.turns import in_turns, in_words


def test_ways_take_turns_and_rounds_that_warm_up_do_not_count():
    order, clock = [], itertools.count()

    def way(name):
        def sample():
            order.append(name)
            return float(next(clock))

        return sample

    assert in_turns({"a": way("a"), "b": way("b")}, 2, warm=1) == {"a": [2, 4], "b": [3, 5]}
    assert order == ["a", "b"] * 3


def test_times_are_a_median_and_their_range_in_microseconds():
    assert in_words([3e-6, 1e-6, 2e-6]).split() == ["2.0", "us", "(1.0", "to", "3.0)"]


def test_cudnn_measures_all_that_it_offers_and_float32_is_no_tf32_unless_asked():
    torch = pytest.importorskip("torch")
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.benchmark, cudnn.benchmark_limit, cudnn.allow_tf32, products.allow_tf32
    try:
        set_up(torch)
        assert (cudnn.benchmark, cudnn.benchmark_limit) == (True, 0)
        assert not cudnn.allow_tf32
        assert not products.allow_tf32
        set_up(torch, tf32=True)
        assert cudnn.allow_tf32
        assert products.allow_tf32
    finally:
        cudnn.benchmark, cudnn.benchmark_limit, cudnn.allow_tf32, products.allow_tf32 = before
