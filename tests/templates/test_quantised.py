"""Layers of 8-bit integers on a CPU: sums of any bytes are exact, results end in their type."""

import platform

import numpy as np
import pytest
from autotune.templates.quantised import MOST_TERMS

from autotune import Target, build
from autotune.errors import TemplateError
from autotune.task import create

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="names CPUs of x86")
RNG = np.random.default_rng(0)
# The second has no instruction for sums of bytes.
CPUS = ["native", "x86-64"]


def computed(name, args, cpu="native", data=None, scale=1.0):
    """Return what the untuned kernel makes of random bytes, and its reference of the same."""
    target = Target(f"llvm -mcpu={cpu}")
    task = create(name, args, target)
    with target:
        kernel = task.instantiate(task.default())
        function = build(kernel, target=target)
    bytes_of, weights, *_, out = kernel.args
    x = drawn(bytes_of) if data is None else np.full(bytes_of.shape, data, bytes_of.dtype)
    w = drawn(weights) if data is None else np.full(weights.shape, -128, "int8")
    sums = w.reshape(len(w), -1).sum(1, dtype="int32")
    vectors = np.full(len(w), scale, "float32"), np.arange(len(w), dtype="float32")
    result = np.empty(out.shape, out.dtype)
    function(x, w, sums, *vectors, result)
    return result, np.asarray(kernel.reference(x, w, sums, *vectors))


def drawn(argument):
    limits = np.iinfo(argument.dtype)
    return RNG.integers(limits.min, limits.max + 1, argument.shape).astype(argument.dtype)


@pytest.mark.parametrize("name", CPUS)
@pytest.mark.parametrize(
    ("template", "args"),
    [
        ("gemm_int8.cpu", (1, 1, 1)),
        ("gemm_int8.cpu", (7, 13, 67)),
        ("gemm_int8.cpu", (5, 18, 64, "uint8", 255)),
        ("conv2d_int8.cpu", (2, 9, 11, 10, 6, 3, 2, (2, 1), (1, 0, 2, 3), (1, 2), 2)),
        ("conv2d_int8.cpu", (1, 5, 19, 17, 3, 1, 1, 1, 0, 1, 1, "uint8", 77)),
    ],
)
def test_sums_of_remainders_are_exact(name, template, args):
    got, expected = computed(template, args, name)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", CPUS)
@pytest.mark.parametrize("byte", [0, 255])
def test_sums_of_the_largest_products_are_exact(name, byte):
    got, expected = computed("gemm_int8.cpu", (1, 5, MOST_TERMS, "uint8", 0), name, byte)
    np.testing.assert_array_equal(got, expected.astype("float32"))


@pytest.mark.parametrize("template", ["gemm_int8.cpu", "conv2d_int8.cpu"])
@pytest.mark.parametrize(("dtype", "zero"), [("int8", -3), ("uint8", 200)])
def test_results_end_at_the_limits_of_their_type(template, dtype, zero):
    shape = (4, 8, 9) if template == "gemm_int8.cpu" else (1, 4, 4, 8, 3, 2, 2, 1, 0, 1, 1)
    got, expected = computed(template, (*shape, "int8", 5, dtype, zero))
    np.testing.assert_array_equal(got, expected)
    limits = np.iinfo(dtype)
    assert (got.min(), got.max()) == (limits.min, limits.max)


def test_products_compile_by_gcc_before_12(monkeypatch):
    monkeypatch.setenv("CC", "cc -U__GNUC__ -D__GNUC__=11")
    got, expected = computed("gemm_int8.cpu", (5, 9, 130))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("template", "shape"),
    [("gemm_int8.cpu", (1, 1, MOST_TERMS + 1)), ("conv2d_int8.cpu", (1, 3, 3, 1, 7311, 3, 3))],
)
def test_sums_that_32_bits_may_not_hold_are_refused(template, shape):
    with pytest.raises(TemplateError, match="hold at most 65793 products of bytes"):
        create(template, shape, "llvm")
