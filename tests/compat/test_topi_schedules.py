"""Schedules and operators of TVM's ``topi.generic``, ``topi.cuda`` and ``topi.x86``."""

import shutil

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import ExpressionError, ScheduleError
from autotune.tvm import te, topi


def dense_layer():
    data, weight = te.placeholder((8, 64), name="data"), te.placeholder((32, 64), name="weight")
    return data, weight, topi.nn.relu(topi.nn.dense(data, weight))


def check_dense(schedule, tensors, target):
    function = tvm.build(schedule, tensors, target)
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=(8, 64)), rng.normal(size=(32, 64))
    out = np.zeros((8, 32), "float32")
    function(data.astype("float32"), weight.astype("float32"), out)
    np.testing.assert_allclose(out, np.maximum(data @ weight.T, 0), rtol=1e-3, atol=1e-4)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("generic", "llvm"),
        ("generic", "cuda -emulate"),
        ("x86", "llvm"),
        ("cuda", "cuda -emulate"),
    ],
)
@pytest.mark.parametrize("name", ["schedule_dense", "schedule_injective", "schedule_reduce"])
def test_any_graph_is_scheduled_for_its_target(module, target, name):
    *inputs, out = dense_layer()
    with tvm.target.Target(target):
        schedule = getattr(getattr(topi, module), name)([out])
    check_dense(schedule, [*inputs, out], target)


def test_a_module_schedules_for_its_own_kind_of_target():
    a = te.placeholder((1024,), name="A")
    b = topi.exp(a)
    with tvm.target.Target("llvm"):
        assert topi.cuda.schedule_elemwise(b).binds_threads()
    with tvm.target.Target("cuda -emulate"):
        assert not topi.x86.schedule_injective([b]).binds_threads()
        assert topi.generic.schedule_injective(outs=[b]).binds_threads()


def test_configurations_and_layouts_around_the_outputs_are_accepted():
    image = te.placeholder((1, 4, 8, 8), name="image")
    pooled = topi.nn.pool2d(image, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max")
    topi.generic.schedule_pool(pooled, "NCHW")
    topi.cuda.schedule_conv2d_nchw(None, [pooled])
    with pytest.raises(ScheduleError, match="schedule_pool: outs must be a tensor or a list"):
        topi.generic.schedule_pool("NCHW")


def test_one_stage_of_a_schedule_is_scheduled_as_elementwise():
    a = te.placeholder((4, 100), name="A")
    b = topi.exp(a)
    schedule = te.create_schedule(b.op)
    assert topi.cuda.schedule_injective_from_existing(schedule, b) is schedule
    x, out = np.ones((4, 100), "float32"), np.zeros((4, 100), "float32")
    tvm.build(schedule, [a, b], "cuda -emulate")(x, out)
    np.testing.assert_allclose(out, np.e, rtol=1e-6)


def test_operators_are_in_the_module_of_a_target_too():
    assert topi.cuda.conv2d_nchw is topi.nn.conv2d_nchw
    assert topi.x86.dense_nopack is topi.x86.dense
    with pytest.raises(AttributeError, match=r"tensor cores are used by autotune\.templates"):
        _ = topi.cuda.dense_tensorcore_cuda


@pytest.mark.parametrize("name", ["dense", "batch_matmul"])
def test_products_for_tensor_cores_are_scheduled_for_them(name):
    def made(batch, size, target):
        shape = (size, size) if name == "dense" else (batch, size, size)
        a, b = te.placeholder(shape, name="A"), te.placeholder(shape, name="B")
        product = getattr(topi.cuda, f"{name}_tensorcore")(a, b)
        with tvm.target.Target(target):
            schedule = getattr(topi.cuda, f"schedule_{name}_tensorcore")([product])
            return tvm.build(schedule, [a, b, product], name="product"), shape

    if shutil.which("nvcc") is not None:
        assert "mma" in made(4, 256, "cuda -arch=sm_90")[0].get_source()
    function, shape = made(2, 16, "cuda -emulate")
    x, y = np.random.default_rng(0).normal(size=(2, *shape)).astype("float32")
    out = np.zeros(shape, "float32")
    function(x, y, out)
    np.testing.assert_allclose(out, x @ np.moveaxis(y, -1, -2), rtol=0.02, atol=0.02)


def test_a_convolution_for_tensor_cores_rounds_its_operands():
    image, filters = te.placeholder((1, 6, 6, 4)), te.placeholder((3, 3, 4, 8))
    made = topi.cuda.conv2d_nhwc_tensorcore(image, filters, 1, 1)
    assert topi.utils.get_const_tuple(made.shape) == (1, 6, 6, 8)
    assert made.dtype == "float32"
    kinds = {each.dtype for each in made.op.input_tensors}
    assert kinds == {"float16"}


def test_a_convolution_takes_the_layout_of_older_versions():
    image, filters = te.placeholder((1, 2, 8, 8)), te.placeholder((4, 2, 3, 3))
    for made in (
        topi.nn.conv2d(image, filters, 1, 1, layout="NCHW"),
        topi.nn.conv2d(image, filters, 1, 1, "NCHW"),
        topi.nn.conv2d(image, filters, 1, 1, 1, "NCHW"),
    ):
        assert topi.utils.get_const_tuple(made.shape) == (1, 4, 8, 8)


def evaluated(tensor, *pairs):
    function = tvm.build(te.create_schedule(tensor.op), [*[t for t, _ in pairs], tensor])
    out = tvm.nd.empty(tensor.shape, tensor.dtype)
    function(*[value for _, value in pairs], out)
    return out.numpy()


@pytest.mark.parametrize(
    ("first", "second", "axes"),
    [
        ((3,), (4,), 0),
        ((2, 3), (3, 4), 1),
        ((2, 3, 4), (3, 4, 5), 2),
        ((2, 3, 4), (4, 5, 3), ((1, 2), (2, 0))),
        ((2, 3), (5, 3), ((-1,), (1,))),
    ],
)
def test_tensordot_is_that_of_numpy(first, second, axes):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=first).astype("float32"), rng.normal(size=second).astype("float32")
    A, B = te.placeholder(first, name="A"), te.placeholder(second, name="B")
    found = evaluated(topi.tensordot(A, B, axes), (A, a), (B, b))
    np.testing.assert_allclose(found, np.tensordot(a, b, axes), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "axes", [1, 3, ((0,), (0, 1)), "x", ((5,), (0,)), ((2,), (0,)), ((0,), (-3,)), (0.5, 0)]
)
def test_axes_that_do_not_fit_are_refused_by_tensordot(axes):
    A, B = te.placeholder((2, 3), name="A"), te.placeholder((2, 3), name="B")
    with pytest.raises(ExpressionError, match="tensordot: axes must be a number of axes"):
        topi.tensordot(A, B, axes)


def test_the_shape_of_a_tensor_is_a_tensor():
    A = te.placeholder((4, te.var("n")), name="A")
    found = topi.shape(A)
    function = tvm.build(te.create_schedule(found.op), [A, found])
    out = np.zeros(2, "int32")
    function(np.zeros((4, 7), "float32"), out)
    assert out.tolist() == [4, 7]
    assert topi.fast_exp is topi.exp


def test_modules_of_single_operators_are_imported_and_schedule_by_the_same_rules():
    from autotune.tvm.topi.cuda.conv2d_int8 import schedule_conv2d_NCHWc_int8
    from autotune.tvm.topi.cuda.depthwise_conv2d import schedule_depthwise_conv2d_nchw
    from autotune.tvm.topi.x86.dense import schedule_dense_nopack

    assert schedule_conv2d_NCHWc_int8 is topi.cuda.schedule_conv2d_NCHWc_int8
    assert schedule_depthwise_conv2d_nchw is topi.cuda.schedule_depthwise_conv2d_nchw
    assert schedule_dense_nopack is topi.x86.schedule_dense_nopack


def test_what_a_template_returned_is_printed_whether_it_has_loops_or_not():
    data, weight = (("TENSOR", shape, "float32") for shape in ((1, 8, 6, 6), (8, 8, 3, 3)))
    task = tvm.autotvm.task.create(
        "conv2d_NCHWc.x86", (data, weight, 1, 1, 1, "NCHW", "NCHW", "float32"), "llvm"
    )
    with tvm.target.Target("llvm"):
        s, args = task.func(*task.args)
    assert "void" in str(tvm.lower(s, args, simple_mode=True))
    a = te.placeholder((16,), name="A")
    b = topi.exp(a)
    assert "for" in str(tvm.lower(te.create_schedule(b.op), [a, b]))


@pytest.mark.parametrize("target", ["cuda -emulate", "llvm"])
def test_bytes_in_blocks_of_channels_are_convolved(target):
    rng = np.random.default_rng(0)
    image = rng.integers(-128, 128, (1, 8, 5, 5)).astype("int8")
    filters = rng.integers(-128, 128, (12, 8, 3, 3)).astype("int8")
    want = topi.testing.conv2d_nchw_python(image.astype("int32"), filters.astype("int32"), 2, 1)
    want = want.reshape(1, 3, 4, 3, 3).transpose(0, 1, 3, 4, 2)
    blocks = image.reshape(1, 2, 4, 5, 5).transpose(0, 1, 3, 4, 2)
    packed = filters.reshape(3, 4, 2, 4, 3, 3).transpose(0, 2, 4, 5, 1, 3)
    part = topi.cuda if target.startswith("cuda") else topi.x86
    device = tvm.device(target, 0)
    for data, weight, layout in ((image, filters, "NCHW"), (blocks, packed, "NCHW4c")):
        a, b = (te.placeholder(each.shape, "int8") for each in (data, weight))
        with tvm.target.Target(target):
            c = part.conv2d_NCHWc_int8(a, b, 2, 1, 1, layout, "int32")
            function = tvm.build(part.schedule_conv2d_NCHWc_int8([c]), [a, b, c], target)
        out = tvm.nd.empty(want.shape, "int32", device)
        function(tvm.nd.array(data, device), tvm.nd.array(weight, device), out)
        np.testing.assert_array_equal(out.numpy(), want)


def test_bytes_that_are_not_in_blocks_of_four_are_refused():
    a, b = te.placeholder((1, 6, 5, 5), "int8"), te.placeholder((8, 6, 3, 3), "int8")
    with pytest.raises(ExpressionError, match="OIHW of multiples of 4, for 6 channels"):
        topi.cuda.conv2d_NCHWc_int8(a, b, 1, 1, 1, "NCHW", "int32")


def test_floats_are_not_convolved_as_bytes():
    a, b = te.placeholder((1, 8, 5, 5), "float32"), te.placeholder((8, 8, 3, 3), "int8")
    with pytest.raises(ExpressionError, match="data must be of int8 or uint8"):
        topi.cuda.conv2d_NCHWc_int8(a, b, 1, 1, 1, "NCHW", "int32")
