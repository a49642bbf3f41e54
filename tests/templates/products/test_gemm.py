"""Products of matrices: batches, transposed operands, what follows, and other types."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_mma
from autotune.templates.products.gemm_shape import Gemm, as_tf32
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.measure.check.tracked import Tracked
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of, check_emulated


def small(split):
    def fits(kernel):
        products = [call for call in kernel.calls if call.entry.startswith("gemm")]
        return products[0].launch.threads <= 128 and split == (len(products) > 1)

    return fits


# m, n, k, dtype, batch, transposed, bias, activation, residual, affine, alpha, shared
FLOAT32 = {
    "a-along-m": (9, 7, 12, "float32", 3, True, False, True, "gelu", True, True, 0.5),
    "b-along-k": (9, 8, 12, "float32", 2, False, True, True, "relu", False, False, 1.0, "b"),
    "long": (5, 8, 200, "float32", 2, True, True, True, "silu", True, False, 1.0, "a"),
}
HALVES = {
    "both": (20, 36, 40, "float16", 2, True, True, True, "silu", True, True, 0.5),
    "odd": (19, 37, 41, "bfloat16", 2, True, False, True, "gelu", True, True, 2.0, "a"),
    "odd-long": (10, 21, 257, "float16", 2, False, True, True, "relu", True),
}


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_products_match_their_reference_in_the_emulator(name):
    check_emulated("gemm.cuda", FLOAT32[name], fits=small(name == "long"))


@pytest.mark.parametrize("name", HALVES)
def test_products_on_tensor_cores_match_their_reference_in_the_emulator(name):
    check_emulated("gemm.cuda", HALVES[name], fits=small(name == "odd-long"), rtol=2e-2)


# n and k are odd where nothing else is said: floats need no padded copies.
FLOATS_AS_TF32 = {
    "along-k": (10, 21, 257, "tf32", 1, False, True),
    "along-m-and-n": (19, 37, 41, "tf32", 2, True, False, True, "gelu", True, True, 2.0, "a"),
}


@pytest.mark.parametrize("name", FLOATS_AS_TF32)
def test_floats_multiplied_as_tf32_match_their_reference_in_the_emulator(name):
    check_emulated("gemm.cuda", FLOATS_AS_TF32[name], fits=small(name == "along-k"), rtol=2e-2)


def test_floats_are_rounded_to_eleven_bits_and_bounds_of_errors_know_it():
    x = np.random.default_rng(0).normal(size=1000).astype("float32")
    bits = x.view(np.uint32)
    nearest = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    assert (as_tf32(x) == nearest).mean() > 0.99  # of two that are equally near it may be either
    assert (abs(as_tf32(x) - x) <= 2.0**-11 * abs(x)).all()
    bounds = as_tf32(Tracked(x, 0.0, "float32")).error
    assert (bounds >= 2.0**-11 * abs(x)).all()
    assert (bounds <= 2.0**-9 * abs(x)).all()


def test_tf32_is_only_used_where_it_is_asked_for():
    plain, short = (
        create("gemm.cuda", (64, 64, 64, dtype), "cuda -arch=sm_90")
        for dtype in ("float32", "tf32")
    )
    assert plain.instantiate(plain.default()).calls[0].entry == "gemm_nn"
    kernel = short.instantiate(short.default())
    assert kernel.calls[0].entry == "gemm_mma"
    assert {a.dtype for a in kernel.args} == {"float32"}


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("args", "entries"),
    [
        ((17, 21, 68, "int8", 2, False, True), ["gemm_mma"]),
        ((17, 21, 67, "int8", 2, False, True), ["along_k", "gemm_mma"]),
        ((68, 21, 64, "int8", 2, False, False), ["along_k", "gemm_mma"]),
        ((17, 132, 129, "int8", 2, True, False), ["along_k", "gemm_mma"]),
        ((66, 20, 160, "int8", 2, True, True), ["along_k", "gemm_mma"]),
    ],
    ids=["along-k", "odd-k", "nn", "tn-odd-k", "tt"],
)
def test_products_of_8_bit_integers_are_exact(args, entries):
    task = create("gemm.cuda", args, "cuda -emulate")
    source = task.instantiate(task.default())
    assert [each.entry for each in source.calls] == entries
    rng, (a, b, c) = np.random.default_rng(0), arrays_of(source)
    a[:], b[:] = rng.integers(-128, 128, a.shape), rng.integers(-128, 128, b.shape)
    run_emulated(source.kernel("cuda"), [a, b, c], orders=(0,))
    left, right = (
        x.astype(np.int64).swapaxes(1, 2) if turned else x.astype(np.int64)
        for x, turned in ((a, args[5]), (b, args[6]))
    )
    wanted = left @ right
    assert c.dtype == np.int32
    assert (c == wanted).all()
    assert (source.reference(a, b) == wanted).all()


extent = st.integers(1, 70)


@settings(max_examples=10, deadline=None)
@given(
    extent, extent, st.integers(1, 300), st.sampled_from(["float32", "tf32", "float16", "int8"]),
    st.sampled_from([1, 3, 70000]), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_every_product_has_configurations_and_its_default_is_one(m, n, k, dtype, batch, ta, tb, b):
    args = (m, n, k, dtype, batch, ta, tb, b and dtype != "int8")
    task = create("gemm.cuda", args, "cuda -arch=sm_90")
    assert task.config_space.rough_count >= 1
    default = task.default()
    assert default is not None
    kernel = task.instantiate(default).kernel("cuda")
    assert launch_violation(kernel, Target("cuda -arch=sm_90").limits) is None


def test_the_reference_is_the_sum_and_what_follows():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(3, 5))
    bias, residual, scale, shift = (rng.normal(size=s) for s in [5, (4, 5), 5, 5])
    shape = Gemm(4, 5, 3, transpose_a=True, epilogue=Epilogue(True, True, True, "relu", 0.5))
    wanted = np.maximum((a.T @ b * 0.5 + bias + residual) * scale + shift, 0)
    got = shape.reference()(a, b, bias, residual, scale, shift)
    np.testing.assert_allclose(got, wanted)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((4, 4, 4, "int8", 1, False, True, True), "have no epilogue"),
        ((4, 4, 4, "float64"), "dtype must be"),
        ((4, 4, 4, "float32", 0), "at least 1"),
        ((4, 4, 4, "float32", 2, False, False, False, "tanh"), "activation must be one of"),
        (
            (4, 4, 4, "float32", 2, *[False] * 3, "none", False, False, float("nan")),
            "alpha must be a number",
        ),
        ((4, 4, 4, "float32", 2, *[False] * 3, "none", False, False, 1.0, "c"), "shared must be"),
    ],
)
def test_a_product_that_cannot_be_is_an_error_that_says_so(args, message):
    with pytest.raises(TemplateError, match=message):
        create("gemm.cuda", args, "cuda")


def test_places_of_8_bit_integers_are_counted_in_pairs():
    assert gemm_mma.depth(Gemm(8, 8, 64, "int8", transpose_b=True)) == 32
    assert gemm_mma.depth(Gemm(8, 8, 64, "float16")) == 64
