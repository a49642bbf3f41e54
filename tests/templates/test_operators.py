"""Templates called as operators of TVM are: what they compute, and what records ask for."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from autotune.templates import te_winograd

import autotune
from autotune import te
from autotune.errors import TemplateError
from autotune.graph import TensorType, Variable, ops
from autotune.network.template_tasks import layer_tasks
from autotune.target import Target
from autotune.topi.nn.winograd import transform_fractions

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.normal(size=shape).astype("float32")


def run(task, config, arrays, shape):
    """Builds a configuration, and returns what it computes."""
    with task.target:
        function = autotune.build(task.instantiate(config), target=task.target)
    out = np.full(shape, np.nan, "float32")
    function(*arrays, out)
    return out


def task_of(name, arrays, rest, target):
    return autotune.create(name, (*[te.placeholder(a.shape) for a in arrays], *rest), target)


EMULATED = "cuda -emulate"
CONV = ((1, 1), (1, 1, 1, 1), (1, 1))
UNEVEN = ((2, 1), (0, 1, 1, 0), (1, 2))
CASES = [
    ("conv2d_nchw.cuda", EMULATED, (1, 3, 6, 7), (4, 3, 3, 3), UNEVEN, ("float32",)),
    ("group_conv2d_nchw.cuda", EMULATED, (1, 4, 5, 5), (6, 2, 3, 3), CONV, (2, "float32")),
    ("depthwise_conv2d_nchw.cuda", EMULATED, (1, 4, 6, 6), (4, 1, 3, 3), CONV, ("float32",)),
    ("conv2d_NCHWc.x86", "llvm", (2, 4, 6, 6), (8, 4, 3, 3), CONV, ("NCHW", "NCHW", "float32")),
    ("conv2d_NCHWc.x86", "llvm", (1, 4, 6, 7), (8, 4, 3, 3), UNEVEN, ("NCHW", "NCHW", "float32")),
    (
        "depthwise_conv2d_NCHWc.x86", "llvm", (1, 8, 6, 6), (8, 1, 3, 3), CONV,
        ("NCHW", "NCHW", "float32"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "target", "data", "weight", "moves", "rest"), CASES)
def test_convolutions_are_right(name, target, data, weight, moves, rest):
    arrays = numbers(*data), numbers(*weight)
    groups = data[1] // weight[1]
    op = ops.Conv2d(*moves, groups)
    want = op.reference(*[a.astype("float64") for a in arrays])
    task = task_of(name, arrays, (*moves, *rest), target)
    got = run(task, task.default(), arrays, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


MOVES_3D = ((1, 2, 1), (1, 1, 0, 0, 1, 2), (1, 1, 2))
CONV_3D = ops.Conv3d((1, 2, 1), (1, 1, 0, 0, 1, 2), (1, 1, 2))
CONV_3D_LAST = replace(CONV_3D, data_layout="NDHWC", kernel_layout="DHWIO")
NHWC = ops.Conv2d(*UNEVEN, data_layout="NHWC", kernel_layout="HWIO")
# As the tasks of networks have them: name, operator, shapes, and what follows the tensors.
OTHERS = [
    ("conv3d_ncdhw.cuda", CONV_3D, (1, 3, 4, 6, 5), (4, 3, 3, 2, 2), (*MOVES_3D, 1, "float32")),
    ("conv3d_ncdhw.x86", CONV_3D, (1, 3, 4, 6, 5), (4, 3, 3, 2, 2), (*MOVES_3D, 1, "float32")),
    ("conv3d_ndhwc.cuda", CONV_3D_LAST, (1, 4, 6, 5, 3), (3, 2, 2, 3, 4),
     (*MOVES_3D, 1, "float32")),
    ("conv3d_ndhwc.x86", CONV_3D_LAST, (1, 4, 6, 5, 3), (3, 2, 2, 3, 4),
     (*MOVES_3D, 1, "float32")),
    ("conv2d_transpose_nchw.cuda", ops.Conv2dTranspose((2, 1), (1, 0, 1, 2), (1, 0)),
     (1, 4, 3, 4), (4, 3, 3, 4), ((2, 1), (1, 0, 1, 2), "float32", (1, 0), 1)),
    ("conv2d_nhwc.gpu", NHWC, (1, 6, 7, 4), (3, 3, 4, 6), (*UNEVEN, "float32")),
    ("batch_matmul.cuda", ops.BatchMatmul(True, True), (3, 8, 5), (1, 7, 8),
     ((3, 5, 7), "float32", True, True)),
    ("batch_matmul.x86", ops.BatchMatmul(False, True), (3, 5, 8), (1, 7, 8),
     ((3, 5, 7), "float32", False, True)),
]  # fmt: skip


# Their kernels are run by other tests, or made by the same schedule as those of the others.
SLOW = ("conv3d_ncdhw.cuda", "conv3d_ndhwc.cuda", "conv2d_nhwc.gpu")


@pytest.mark.parametrize(("name", "op", "data", "weight", "rest"), OTHERS)
def test_tasks_of_other_layers_have_these_arguments_and_are_right(name, op, data, weight, rest):
    arrays = numbers(*data), numbers(*weight)
    target = Target("llvm" if name.endswith("x86") else EMULATED)
    values = [Variable(TensorType(a.shape), "v") for a in arrays]
    (layer,) = layer_tasks(op, values, "float32", target)
    tensors = tuple(("TENSOR", a.shape, "float32") for a in arrays)
    assert (layer.name, layer.args) == (name, (*tensors, *rest))
    want = op.reference(*[a.astype("float64") for a in arrays])
    task = task_of(name, arrays, rest, target)
    assert not task.config_space.has_at_most(1)
    if name in SLOW:
        return
    got = run(task, task.default(), arrays, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution_is_a_convolution_of_spread_data_on_a_cpu():
    op, data, weight = ops.Conv2dTranspose((2,), (1,)), (1, 6, 4, 4), (6, 3, 4, 4)
    values = [Variable(TensorType(shape), "v") for shape in (data, weight)]
    (layer,) = layer_tasks(op, values, "float32", Target("llvm"))
    (_, spread, _), (_, filters, _), *_ = layer.args
    assert (layer.name, filters) == ("conv2d_NCHWc.x86", (3, 6, 4, 4))
    plain = ops.Conv2d().infer(TensorType(spread), TensorType(filters))
    assert plain == op.infer(*(value.type for value in values))
    task = autotune.create(layer.name, layer.args, "llvm")
    assert task.flop == ops.Conv2d().flop(TensorType(spread), TensorType(filters), plain)


DENSE = ["dense_nopack.x86", "dense_pack.x86", "dense_small_batch.gpu", "dense_large_batch.gpu"]


@pytest.mark.many_cases
@pytest.mark.parametrize("name", DENSE)
def test_dense_layers_are_right_whether_weights_are_laid_out_anew_or_not(name):
    a, w = numbers(4, 16), numbers(8, 16)
    target = "llvm" if name.endswith("x86") else EMULATED
    task = task_of(name, (a, w), (None, "float32"), target)
    packed = name in ("dense_pack.x86", "dense_large_batch.gpu")
    given = np.ascontiguousarray(w.T) if packed else w
    got = run(task, task.default(), (a, given), (4, 8))
    np.testing.assert_allclose(got, a @ w.T, rtol=1e-5, atol=1e-5)


def test_winograds_convolution_is_right_with_filters_that_were_transformed():
    data, weight, moves = numbers(1, 3, 6, 6), numbers(4, 3, 3, 3), CONV
    task = task_of("conv2d_nchw_winograd.cuda", (data, weight), (*moves, "float32"), EMULATED)
    assert [*task.config_space.space_map] == [
        "tile_b", "tile_y", "tile_x", "tile_rc", "auto_unroll_max_step", "unroll_explicit",
    ]  # fmt: skip
    transformed = transform(weight, te_winograd.tile_of(6))
    want = ops.Conv2d(*moves).reference(data.astype("float64"), weight.astype("float64"))
    got = run(
        task, task.config_space.get(len(task.config_space) // 2), (data, transformed), want.shape
    )
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    assert te_winograd.tile_of(56) == 4
    with pytest.raises(TemplateError, match="strides and dilation must be 1"):
        task_of(
            "conv2d_nchw_winograd.cuda", (data, weight), ((2, 2), *moves[1:], "float32"), "cuda"
        )


def transform(weight, tile):
    g = np.array(transform_fractions(tile, weight.shape[-1])[2], "float64")
    made = np.einsum("ai,ocij,bj->aboc", g, weight.astype("float64"), g)
    return np.ascontiguousarray(made.astype("float32"))


def test_a_dtype_that_no_hand_written_kernel_has_is_computed_by_its_tensor_expression():
    data, weight = te.placeholder((1, 4, 6, 6), "float16"), te.placeholder((4, 4, 3, 3), "float16")
    task = autotune.create("conv2d_nchw.cuda", (data, weight, *CONV, "float16"), Target("cuda"))
    assert "tile_f" in task.config_space.space_map


# Each result is of 4096 products, of which no sum in 16 bits gets beyond 256 or 2048.
ONE_CONV = ((1, 1), (0, 0, 0, 0), (1, 1))
ONE_CONV_3D = ((1, 1, 1), (0,) * 6, (1, 1, 1), 1)
LONG_SUMS = [
    ("conv2d_nchw.cuda", (1, 256, 4, 4), (2, 256, 4, 4), ONE_CONV),
    ("depthwise_conv2d_nchw.cuda", (1, 2, 64, 64), (2, 1, 64, 64), ONE_CONV),
    ("conv2d_NCHWc.x86", (1, 256, 4, 4), (2, 256, 4, 4), (*ONE_CONV, "NCHW", "NCHW")),
    ("depthwise_conv2d_NCHWc.x86", (1, 2, 64, 64), (2, 1, 64, 64), (*ONE_CONV, "NCHW", "NCHW")),
    ("conv3d_ncdhw.cuda", (1, 64, 4, 4, 4), (2, 64, 4, 4, 4), ONE_CONV_3D),
    ("conv3d_ndhwc.x86", (1, 4, 4, 4, 64), (4, 4, 4, 64, 2), ONE_CONV_3D),
    ("dense_small_batch.gpu", (4, 4096), (8, 4096), (None,)),
    ("dense_nopack.x86", (4, 4096), (8, 4096), (None,)),
    ("dense_pack.x86", (4, 4096), (8, 4096), (None,)),
    ("batch_matmul.x86", (1, 2, 4096), (1, 3, 4096), (None,)),
]  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("out_dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("name", "data", "weight", "rest"), LONG_SUMS)
def test_sums_of_16_bit_floats_are_rounded_once(name, data, weight, rest, out_dtype):
    dtype = "float16" if out_dtype == "float32" else out_dtype
    kinds = [np.dtype(getattr(ml_dtypes, each, each)) for each in (dtype, out_dtype)]
    target = Target("llvm" if name.endswith("x86") else EMULATED)
    tensors = [te.placeholder(shape, dtype) for shape in (data, weight)]
    task = autotune.create(name, (*tensors, *rest, out_dtype), target)
    space = task.config_space
    for config in (task.default(), space.get(len(space) // 3)):
        with target:
            made = task.instantiate(config)
            function = autotune.build(made, target=target)
        out = made[1][-1]
        assert out.dtype == out_dtype
        got = np.zeros([int(n) for n in out.shape], kinds[1])
        function(*[np.ones(shape, kinds[0]) for shape in (data, weight)], got)
        assert (got.astype("float32") == 4096).all()
