"""Results that lie in the memory of inputs: refused, but where each element stands alone."""

import numpy as np
import pytest

import autotune
from autotune.errors import TunerError
from autotune.runtime import array


def call(name, **attributes):
    def function(*arrays):
        return attributes

    return autotune.jit(name, key=function, target="llvm")


pytestmark = pytest.mark.usefixtures("here")


def drawn(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


MESSAGE = "argument 2, a result, lies in the memory of argument 0, which is read while it is"


@pytest.mark.parametrize("of", [lambda x: x, array, pytest.param("torch", id="torch")])
def test_a_product_into_one_of_its_factors_is_refused(of):
    of = pytest.importorskip("torch").from_numpy if of == "torch" else of
    x, weight = of(drawn(8, 8)), of(drawn(8, 8))
    with pytest.raises(TunerError, match=MESSAGE):
        call("nn.dense")(x, weight, x)


def test_a_view_of_an_input_is_refused_and_other_parts_of_its_memory_are_not():
    memory = drawn(24, 8)
    product = call("nn.dense")
    with pytest.raises(TunerError, match=MESSAGE):
        product(memory[:8], memory[8:16], memory[4:12])
    expected = memory[:8] @ memory[8:16].T
    product(memory[:8], memory[8:16], memory[16:])
    np.testing.assert_allclose(memory[16:], expected, rtol=1e-5)


def test_a_result_behind_the_memory_of_repeated_rows_is_written():
    torch = pytest.importorskip("torch")
    memory = torch.arange(90.0)
    rows, out = memory[:10].expand(8, 10), memory[10:].view(8, 10)
    call("nn.relu")(rows, out)
    np.testing.assert_array_equal(out, rows)
    with pytest.raises(TunerError, match="lies in the memory of argument 0"):
        call("nn.softmax")(rows, memory[9:89].view(8, 10))


def test_rows_that_alternate_in_memory_count_as_in_the_same():
    memory = drawn(16, 8)
    with pytest.raises(TunerError, match="lies in the memory of argument 0"):
        call("transpose")(memory[::2], memory[1::2].T)


@pytest.mark.parametrize("size", [1, 7, 1001, 131_073])
def test_an_elementwise_operator_runs_in_place(size):
    x = drawn(size)
    expected = np.exp(x)
    call("exp")(x, x)
    np.testing.assert_allclose(x, expected, rtol=1e-5)
    y = drawn(size)
    expected = x + y
    call("add")(x, y, y)
    np.testing.assert_array_equal(y, expected)


def test_an_elementwise_operator_into_shifted_or_broadcast_memory_is_refused():
    x = drawn(9, 8)
    with pytest.raises(TunerError, match="argument 1, a result, lies in the memory of argument 0"):
        call("exp")(x[:8], x[1:])
    with pytest.raises(TunerError, match="argument 2, a result, lies in the memory of argument 1"):
        call("add")(drawn(9, 8), x[:1], x)
