"""Layers of 8-bit integers on a CPU: sums of any bytes are exact, results end in their type."""

import platform

import numpy as np
import pytest
from autotune.templates.quantised import MOST_TERMS

from autotune import Target, arg, build
from autotune.errors import TargetError, TemplateError
from autotune.graph import ops
from autotune.task import create

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="names CPUs of x86")
RNG = np.random.default_rng(0)
# The second has no instruction for sums of bytes.
CPUS = ["native", "x86-64"]
# Types, zero points and limits.
SCALED = ("int8", 0, "float32", 0, -1.0, 1.0)


def computed(name, args, cpu="native", data=None, scale=1.0, packed=None):
    """Return what the untuned kernel makes of random bytes, and its reference of the same.

    ``packed`` is how filters are laid out, with their shape before.
    """
    target = Target(f"llvm -mcpu={cpu}")
    task = create(name, args, target)
    with target:
        kernel = task.instantiate(task.default())
        function = build(kernel, target=target)
    bytes_of, weights, sums_of, *others, out = kernel.args
    x = drawn(bytes_of) if data is None else np.full(bytes_of.shape, data, bytes_of.dtype)
    filters = arg("weight", packed[1], "int8") if packed else weights
    w = drawn(filters) if data is None else np.full(weights.shape, -128, "int8")
    sums = w.reshape(len(w), -1).sum(1, dtype="int32")
    w = packed[0].reference(w) if packed else w
    (count,) = sums_of.shape
    vectors = np.full(count, scale, "float32"), np.arange(count, dtype="float32")
    residual = [drawn(each) for each in others[2:]]
    result = np.empty(out.shape, out.dtype)
    function(x, w, sums, *vectors, *residual, result)
    return result, np.asarray(kernel.reference(x, w, sums, *vectors, *residual))


def drawn(argument):
    limits = np.iinfo(argument.dtype)
    return RNG.integers(limits.min, limits.max + 1, argument.shape).astype(argument.dtype)


@pytest.mark.many_cases
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


@pytest.mark.parametrize(
    "args",
    [
        # Rows that end within vectors, in four phases; two blocks of filters, several parts.
        (1, 9, 11, 36, 70, 3, 3, 2, 1),
        # Neighbours of a row in words, and more channels than words have.
        (1, 9, 40, 5, 3, 7, 5, 2, 2, 1, 1, "uint8", 9),
        # All that a filter meets is padding.
        (1, 2, 1, 3, 3, 2, 2, (1, 10), (0, 5, 0, 0), 1, 1, "uint8", 7),
        # Depthwise: a vector and a part, two filters for each channel, a stride without shuffles.
        (1, 6, 19, 8, 4, 3, 3, 1, 1, 1, 4),
        (1, 9, 40, 3, 3, 5, 5, (1, 4), 2, (1, 2), 3, "uint8", 9),
    ],
)
def test_convolutions_of_arranged_images_are_exact(args):
    got, expected = computed("conv2d_int8.cpu", args)
    np.testing.assert_array_equal(got, expected)


def test_vectors_compute_what_tiles_do():
    args = (1, 5, 9, 17, 20, 3, 3)
    try:
        got, expected = computed("conv2d_int8.cpu", args, "cascadelake")
    except TargetError as error:  # it has instructions that this CPU lacks
        pytest.skip(str(error))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("cpu", CPUS)
def test_filters_may_be_packed_ahead_and_residuals_be_added(cpu):
    scaled = "int8", -3, "uint8", 7, -100.0, 200.0, True, "int8", 5, 0.5, 0.25, -300.0, 300.0
    args = 1, 6, 7, 20, 12, 3, 3, 1, 1, 1, 2, *scaled
    packed = ops.PackedFilters(2, 9, True), (20, 6, 3, 3)
    got, expected = computed("conv2d_int8.cpu", args, cpu, scale=2.0**-6, packed=packed)
    np.testing.assert_array_equal(got, expected)


def test_residuals_are_added_in_the_order_of_the_reference():
    scaled = (
        "int8",
        -3,
        "float32",
        0,
        -100.0,
        200.0,
        False,
        "int8",
        5,
        0.7123,
        1.3157,
        -300.0,
        300.0,
    )
    try:
        got, expected = computed(
            "conv2d_int8.cpu",
            (1, 6, 7, 20, 12, 3, 3, 1, 1, 1, 2, *scaled),
            "cascadelake",
            scale=0.0123,
        )
    except TargetError as error:  # it has instructions that this CPU lacks
        pytest.skip(str(error))
    np.testing.assert_array_equal(got, expected)


def test_packed_filters_are_refused_for_depthwise_layers():
    with pytest.raises(TemplateError, match="depthwise filters are not packed"):
        create("conv2d_int8.cpu", (1, 4, 4, 8, 8, 3, 3, 1, 1, 1, 8, *SCALED, True), "llvm")


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
