"""Values that are given to a network are what it runs on: converted aloud, or refused."""

import logging

import ml_dtypes
import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError, KernelError
from autotune.tvm import relay
from autotune.tvm.contrib import graph_executor

ROWS = np.arange(12, dtype="float32").reshape(4, 3)


@pytest.fixture(scope="module")
def library():
    data = relay.var("data", shape=(4, 3))
    rows = relay.var("rows", shape=(2,), dtype="int32")
    half = relay.var("half", shape=(2,), dtype="float16")
    taken = relay.take(data, rows, axis=0)
    out = relay.Tuple([taken, half])
    return relay.build(tvm.IRModule.from_expr(relay.Function([data, rows, half], out)), "c")


@pytest.fixture
def module(library):
    return graph_executor.GraphModule(library["default"](tvm.cpu(0)))


def said(caplog):
    return [each.getMessage() for each in caplog.records if "converted" in each.getMessage()]


def test_values_of_another_dtype_are_converted_and_that_is_said_once(module, caplog):
    with caplog.at_level(logging.WARNING, "autotune"):
        for _ in range(3):
            module.set_input("data", ROWS.astype("float64"))
        module.set_input("rows", np.array([3, 1], "int64"))
        module.run(half=[0.5, 2.0])
    np.testing.assert_array_equal(module.get_output(0).numpy(), ROWS[[3, 1]])
    np.testing.assert_array_equal(module.get_output(1).numpy(), [0.5, 2.0])
    assert said(caplog) == [
        "input 'data': values of dtype float64 were converted to float32",
        "input 'rows': values of dtype int64 were converted to int32",
        "input 'half': values of dtype float64 were converted to float16",
    ]


def test_values_of_the_own_dtype_are_copied_in_silence(module, caplog):
    with caplog.at_level(logging.DEBUG, "autotune"):
        module.set_input("data", tvm.nd.array(ROWS))
        module.set_input("data", ROWS)
    np.testing.assert_array_equal(module.get_input("data").numpy(), ROWS)
    assert not said(caplog)


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("rows", np.array([0.5, 1.0]), "input 'rows': values must be of dtype int32"),
        ("rows", tvm.nd.array(np.ones(2, "float32")), "got dtype float32"),
        ("rows", np.array([2**40, 1]), "values must be in the range of int32; got dtype int64"),
        ("half", np.array([1e6, 1.0]), "values must be in the range of float16"),
        ("rows", np.ones(2, ml_dtypes.bfloat16), "values must be of dtype int32"),
    ],
)
def test_values_that_an_input_cannot_hold_are_refused_and_nothing_changes(
    module, name, values, text
):
    before = module.get_input(name).numpy()
    with pytest.raises(GraphError, match=text):
        module.set_input(name, values)
    with pytest.raises(GraphError, match=text):
        module.run(**{name: values})
    np.testing.assert_array_equal(module.get_input(name).numpy(), before)


def test_infinities_and_nans_are_numbers_of_every_float(module):
    module.set_input("half", np.array([np.inf, np.nan]))
    np.testing.assert_array_equal(module.get_input("half").numpy(), [np.inf, np.nan])


def test_what_is_no_array_of_numbers_is_refused_as_before(module):
    with pytest.raises(KernelError, match="shape"):
        module.set_input("data", np.ones((4, 4)))
    with pytest.raises(KernelError, match="an array or nested lists of numbers"):
        module.set_input("data", "abc")
