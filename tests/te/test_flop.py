"""Counting the operations of a schedule."""

import pytest

from autotune import te
from autotune.te import FlopError, compute_flop
from tests.te.graphs import diamond, matmul, padded_convolution, row_sum


def flop(*tensors):
    return compute_flop(te.create_schedule(list(tensors)))


def elementwise(function, dtype="float32"):
    a = te.placeholder((10,), dtype, name="A")
    return flop(te.compute((10,), lambda i: function(a[i]), name="B"))


def test_a_matrix_product_costs_two_for_each_iteration():
    _, _, c = matmul(64, 32, 128)
    assert flop(c) == 2 * 64 * 32 * 128


def test_the_tutorial_convolution_counts_its_padding_too():
    *_, conv, _, _ = padded_convolution(channels=512)
    assert flop(conv) == 2 * 512 * 512 * 49 * 9 + 7 * 512 * 9 * 9


def test_caches_inlining_and_rfactor_change_nothing():
    a, _, c = matmul()
    s = te.create_schedule(c.op)
    before = compute_flop(s)
    cache = s.cache_write(c, "local")
    s.cache_read(a, "shared", [cache])
    assert compute_flop(s) == before
    _, b = row_sum()
    s = te.create_schedule(b.op)
    before = compute_flop(s)
    s.rfactor(b, s[b].split(b.op.reduce_axis[0], 4)[1])
    assert compute_flop(s) == before


def test_every_tensor_counts_once():
    *_, e = diamond(64)
    assert flop(e) == 4 * 64


@pytest.mark.parametrize(
    ("function", "each"),
    [
        (lambda x: x + 1, 1),
        (lambda x: x * x - x / 2, 3),
        (lambda x: te.max(x, 0.0), 1),
        (lambda x: x < 1, 1),
        (lambda x: te.all(x < 1, x > 0), 3),
        (lambda x: te.exp(x) + 1, 1),
        (lambda x: te.exp(x + 1), 1),
        (lambda x: (x + 1).astype("float16"), 1),
        (lambda x: te.Select(x > 0, x + 1, x * 2 + 1), 3),
        (lambda x: te.if_then_else(x > 0, x + 1, x * 2 + 1), 4),
        (lambda x: ~(x < 1), 2),
    ],
)
def test_cost_of_an_expression(function, each):
    assert elementwise(function) == 10 * each


def test_integer_arithmetic_costs_as_much():
    assert elementwise(lambda x: x // 3 % 2, "int32") == 20


def test_index_arithmetic_is_free():
    a = te.placeholder((40,), name="A")
    assert flop(te.compute((10,), lambda i: a[i * 4 + 3] + 1, name="B")) == 10


def test_no_arithmetic_at_all_asks_for_add_flop():
    with pytest.raises(FlopError, match=r"B: there is no arithmetic.*cfg\.add_flop"):
        elementwise(lambda x: te.exp(x))


def test_several_outputs_ask_for_add_flop():
    a = te.placeholder((10,), name="A")
    b, _ = te.compute((10,), lambda i: (a[i] + 1, a[i] * 2), name="B")
    with pytest.raises(FlopError, match=r"B has 2 outputs; .*cfg\.add_flop"):
        flop(b)


def test_an_extent_that_is_not_constant_asks_for_add_flop():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    with pytest.raises(FlopError, match=r"B: the extent of axis 'i' is not constant; .*add_flop"):
        flop(te.compute((n,), lambda i: a[i] + 1, name="B"))


def test_the_error_is_the_runtime_error_that_old_scripts_catch():
    assert issubclass(FlopError, RuntimeError)
