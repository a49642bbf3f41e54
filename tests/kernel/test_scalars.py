"""Numbers passed by value, and constants: what may be declared."""

import json
import pickle
from dataclasses import asdict

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import KernelError
from autotune.kernel import (
    Argument,
    Constant,
    Kernel,
    KernelCall,
    Scalar,
    SourceKernel,
    arg,
    call,
    constant,
    scalar_value,
)

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def test_a_number_that_is_read_is_passed_by_value_and_one_that_is_written_by_address():
    assert arg("n", (), "int32") == Scalar("n", "int32")
    assert arg("n", (), "int32", value=np.int64(7)).value == 7
    assert type(arg("y", (), role="out")) is Argument
    assert type(arg("y", (), role="inout")) is Argument


def test_scalars_hash_pickle_and_become_json():
    one = arg("alpha", (), "float32", value=0.5)
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(Scalar("alpha", "float32", 0.5))
    assert one != Scalar("alpha", "float32", 0.25)
    assert json.loads(json.dumps(asdict(one)))["value"] == 0.5


@pytest.mark.parametrize("dtype", INTEGERS)
@given(data=st.data())
def test_an_integer_fits_or_is_refused_as_numpy_says(dtype, data):
    info = np.iinfo(dtype)
    number = data.draw(st.integers(-(2**70), 2**70) | st.sampled_from([info.min, info.max]))
    if info.min <= number <= info.max:
        assert scalar_value("n", dtype, number) == number
        assert scalar_value("n", dtype, np.array(number, dtype)) == number
    else:
        with pytest.raises(KernelError, match=f"n: expected {dtype} "):
            scalar_value("n", dtype, number)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", 3, 3.0),
        ("float64", np.float32(0.5), 0.5),
        ("bfloat16", ml_dtypes.bfloat16(2.5), 2.5),
        ("float16", np.array(1.5, "float16"), 1.5),
        ("float32", float("inf"), float("inf")),
        ("bool", np.bool_(True), True),
        ("bool", 0, False),
        ("int32", True, 1),
        ("int32", np.array(9, "uint8"), 9),
    ],
)
def test_numbers_of_all_makes_are_taken(dtype, value, expected):
    taken = scalar_value("x", dtype, value)
    assert taken == expected
    assert type(taken) is type(expected)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int32", 2.5, r"expected int32, got 2.5 \(float\)"),
        ("int32", 3.0, r"expected int32, got 3.0 \(float\)"),
        ("int32", "3", r"expected one number \(int32\), got '3' \(str\)"),
        ("float32", "3", r"expected one number \(float32\), got '3'"),
        ("float32", None, r"expected float32, got None"),
        ("float32", [1.0], r"expected float32, got \[1.0\] \(list\)"),
        ("float32", 1j, "expected float32, got 1j"),
        ("float32", np.ones(3), r"expected one number \(float32\), got ndarray of shape \(3,\)"),
        ("float32", 1e39, "expected a number that fits float32, got 1e"),
        ("float16", 1e5, "expected a number that fits float16, got 100000.0"),
        ("float64", 10**400, "expected float64, got 1000"),
        ("bool", 2, r"expected bool \(0 to 1\), got 2"),
        ("int64", 10**400, r"expected int64 \(.{1,60}\), got .{1,60}$"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_came(dtype, value, message):
    with pytest.raises(KernelError, match=f"x: {message}"):
        scalar_value("x", dtype, value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: arg("n", (), "int32", value=1.5), "argument 'n': value: expected int32, got 1.5"),
        (lambda: arg("n", (), "int33"), "argument 'n': dtype 'int33' is unknown"),
        (lambda: arg("x", (4,), value=2), "argument 'x': only numbers .* take value="),
        (lambda: arg("y", (), role="out", value=2), "argument 'y': only numbers"),
        (lambda: constant("a b", (4,)), "constant 'a b': expected the name of a variable"),
        (lambda: constant("a", (0,)), "argument 'a': shape must be positive"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(make, message):
    with pytest.raises(KernelError, match=message):
        make()


def test_constants_are_no_parameters_unless_somebody_says_so():
    args = [constant("mask", (3,)), arg("x", (4,)), arg("y", (4,), role="out")]
    kernel = SourceKernel("f", "...", args).kernel("c")
    assert kernel.calls[0].args == ("x", "y")
    assert kernel.constants == (Constant("mask", (3,), "float32"),)
    assert [a.name for a in kernel.inputs] == ["mask", "x"]
    with pytest.raises(KernelError, match=r"'f' takes the constant 'mask'; .* leave it out"):
        SourceKernel("f", "...", args, calls=[call("f", ["mask", "x"])]).kernel("c")


def test_an_entry_takes_its_scalars_in_the_same_places_each_time():
    args = (arg("n", (), "int32"), arg("m", (), "int32"), arg("y", (4,), role="out"))
    Kernel("f", "c", "", args, (KernelCall("f", ("y", "n")), KernelCall("f", ("y", "m"))))
    with pytest.raises(KernelError, match="'f' is called twice with arguments of other kinds"):
        Kernel("f", "c", "", args, (KernelCall("f", ("y", "n")), KernelCall("f", ("n", "y"))))
