"""Templates under TVM's names for tensor cores and bytes: what they compute, in which dtype."""

import autotune.templates
import numpy as np
import pytest

from autotune import te
from autotune.errors import TemplateError
from autotune.target import Target

RNG = np.random.default_rng(0)
EMULATED = "cuda -emulate"
CONV = ((1, 1), (1, 1, 1, 1), (1, 1))


def small(shape, dtype):
    """Returns whole numbers, of which no sum is rounded in any dtype here."""
    return RNG.integers(-3, 4, shape).astype(dtype)


def run(name, arrays, rest, out_dtype, shape, target=EMULATED):
    tensors = [te.placeholder(each.shape, each.dtype.name) for each in arrays]
    task = autotune.create(name, (*tensors, *rest), Target(target))
    with task.target:
        function = autotune.build(task.instantiate(task.default()), target=task.target)
    out = np.zeros(shape, out_dtype)
    function(*arrays, out)
    return out


PRODUCTS = [("float16", None, "float16"), ("float16", "float32", "float32"),
            ("int8", "int32", "int32"), ("int8", None, "int32")]  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize(("dtype", "asked", "made"), PRODUCTS)
@pytest.mark.parametrize("kind", ["tensorcore", "int8"])
def test_a_dense_layer_has_the_dtype_that_is_asked_for(kind, dtype, asked, made):
    data, weight = small((16, 32), dtype), small((8, 32), dtype)
    got = run(f"dense_{kind}.cuda", (data, weight), (None, asked), made, (16, 8))
    np.testing.assert_array_equal(got, data.astype("float64") @ weight.T.astype("float64"))


@pytest.mark.parametrize(("dtype", "asked", "made"), PRODUCTS)
def test_products_of_batches_have_the_dtype_that_is_asked_for(dtype, asked, made):
    x, y = small((2, 16, 32), dtype), small((2, 8, 32), dtype)
    name = f"batch_matmul_{'int8' if dtype == 'int8' else 'tensorcore'}.cuda"
    got = run(name, (x, y), (None, asked), made, (2, 16, 8))
    want = x.astype("float64") @ y.astype("float64").transpose(0, 2, 1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.many_cases
@pytest.mark.parametrize(("kind", "target"), [("cuda", EMULATED), ("x86", "llvm")])
@pytest.mark.parametrize("layouts", [("NCHW",), ("NCHW", "NCHW")])
def test_images_of_bytes_need_no_blocks_of_channels(kind, target, layouts):
    data, weight = small((1, 8, 6, 5), "int8"), small((4, 8, 3, 3), "int8")
    name = f"conv2d_NCHWc_int8.{kind}"
    got = run(name, (data, weight), (1, 1, 1, *layouts, "int32"), "int32", (1, 4, 6, 5), target)
    padded = np.pad(data.astype("int64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_array_equal(got, np.einsum("nchwij,ocij->nohw", windows, weight))
    with pytest.raises(TemplateError, match=r"data must be images NCHW.*no blocks"):
        run(name, (small((1, 2, 6, 5, 4), "int8"), weight), (1, 1, 1, "NCHW4c"), "int32", (1,))


def test_each_move_of_a_convolution_may_be_one_number():
    data, weight = te.placeholder((1, 8, 8, 8)), te.placeholder((8, 8, 3, 3))
    last, filters = te.placeholder((1, 8, 8, 8)), te.placeholder((3, 3, 8, 8))
    for name, pair in (
        ("conv2d_nchw_winograd.cuda", (data, weight)),
        ("conv2d_nhwc.gpu", (last, filters)),
        ("conv2d_nhwc_tensorcore.cuda", (last, filters)),
    ):
        each = autotune.create(name, (*pair, 1, 1, 1, "float32"), "cuda")
        both = autotune.create(name, (*pair, *CONV, "float32"), "cuda")
        assert repr(each.config_space) == repr(both.config_space)
