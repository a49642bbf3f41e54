"""Operators on tensors."""

import math

from autotune import te, topi
from tests.badcalls import pools as bad
from tests.badcalls.api import Api

NO_TENSOR = [5, 1.5, None, "abc", [], {}, bad.Odd(), len]
NO_AXIS = [*bad.WHOLE[:-1], 1.5, 4, -5]
NO_AXES = ["abc", "", {}, 1j, len, math.nan, True, 1.5, 4, -5, (0, 0), (0, 9), bad.Odd()]
NO_NUMBER = bad.NO_NUMBER
NO_PADDING = ["same", "", 1.5, -1, (1, -1), (1, 2, 3), (), None, {}, bad.Odd(), (1.5, 0)]
NO_PAIR = [0, -1, 1.5, "ab", None, {}, (1,), (1, 0), (1, 2, 3), (1.5, 2), bad.Odd()]
NO_STEP = [0, -1, 1.5, "ab", None, {}, (), (0,), bad.Odd()]
NO_DTYPE = [d for d in bad.DTYPE if d not in ("", "int", None)]
NO_FLAG = ["yes", 5, None, []]
NO_SHAPE = [0, -1, 1.5, "abc", (0,), (4, -1), (4, "n"), ((4,), 4), None, {}, bad.Odd(), (None,)]


def t(*shape, name="t"):
    return te.placeholder(shape, name=name)


def api(function, bad, **good):
    return Api(f"topi.{function.__name__}", function, lambda: dict(good), bad)


UNARY = [
    *(
        topi.abs,
        topi.acos,
        topi.acosh,
        topi.asin,
        topi.asinh,
        topi.atan,
        topi.atanh,
        topi.ceil,
        topi.cos,
        topi.cosh,
        topi.erf,
    ),
    *(topi.exp, topi.floor, topi.identity, topi.isinf, topi.isnan, topi.log, topi.log10),
    *(topi.log2, topi.negative, topi.round, topi.rsqrt, topi.sigmoid, topi.sign, topi.sin),
    *(topi.sinh, topi.sqrt, topi.tan, topi.tanh, topi.trunc, topi.nn.relu, topi.isfinite),
    topi.logical_not,
]
BINARY = [
    *(topi.add, topi.subtract, topi.multiply, topi.divide, topi.maximum, topi.minimum),
    *(topi.power, topi.equal, topi.less, topi.greater_equal, topi.logical_xor),
]
OVER = [topi.sum, topi.max, topi.min, topi.prod, topi.mean, topi.argmax, topi.argmin]
SOFTMAX = [topi.nn.softmax, topi.nn.log_softmax]
ELEMENTS = [
    *[api(function, {"x": NO_TENSOR}, x=t(3, 4)) for function in UNARY],
    *[
        api(function, {"lhs": ["abc", None, [], bad.Odd()], "rhs": ["abc", {}, len]},
            lhs=t(3, 4), rhs=t(4))
        for function in BINARY
    ],
    Api("topi.add of numbers", topi.add, lambda: {"lhs": t(3), "rhs": 1}, {"lhs": [5, 1.5]}),
    api(topi.clip, {"x": NO_TENSOR, "a_min": NO_NUMBER, "a_max": NO_NUMBER},
        x=t(3), a_min=0, a_max=math.inf),
    api(topi.cast, {"x": NO_TENSOR, "dtype": [*NO_DTYPE, ""]}, x=t(3), dtype="int32"),
    api(topi.full, {"shape": NO_SHAPE, "dtype": [*NO_DTYPE, ""], "fill_value": NO_NUMBER},
        shape=(2, 3), dtype="float32", fill_value=-math.inf),
    api(topi.full_like, {"x": NO_TENSOR, "fill_value": NO_NUMBER}, x=t(3), fill_value=1),
    api(topi.elemwise_sum, {"xs": [*NO_TENSOR, [5], [t(3), t(4)], t(3)]}, xs=[t(3), t(3)]),
    api(topi.nn.leaky_relu, {"x": NO_TENSOR, "alpha": NO_NUMBER}, x=t(3), alpha=0.1),
    api(topi.nn.prelu, {"x": NO_TENSOR, "slope": [*NO_TENSOR, t(4), t(3, 1)], "axis": NO_AXIS},
        x=t(2, 3, 4), slope=t(3), axis=1),
    api(topi.nn.bias_add, {"data": NO_TENSOR, "bias": [*NO_TENSOR, t(4), t(1)], "axis": NO_AXIS},
        data=t(2, 3, 4), bias=t(3), axis=1),
    *[
        api(function, {"data": [*NO_TENSOR, t(3, 3)], "scale": [*NO_TENSOR, t(4)],
                       "shift": [*NO_TENSOR, t(1), t(3, 3)]},
            data=t(3, 3, 3, 3), scale=t(3), shift=t(3))
        for function in (topi.nn.scale_shift_nchw, topi.nn.scale_shift_nhwc)
    ],
    api(topi.nn.flatten, {"data": [*NO_TENSOR, t()]}, data=t(2, 3, 4)),
    *[api(function, {"x": NO_TENSOR, "axis": NO_AXIS}, x=t(3, 4), axis=1) for function in SOFTMAX],
    *[
        api(function, {"data": NO_TENSOR, "axis": NO_AXES, "keepdims": NO_FLAG},
            data=t(3, 4), axis=1)
        for function in OVER
    ],
    api(topi.where, {"condition": [*NO_TENSOR, t(3)], "x": NO_TENSOR, "y": [*NO_TENSOR, t(4, 3)]},
        condition=t(3, 4), x=t(3, 4), y=t(3, 4)),
]  # fmt: skip
MOVES = [
    api(topi.broadcast_to, {"data": NO_TENSOR, "shape": [*NO_SHAPE, (4, 3), (4,)]},
        data=t(3, 4), shape=(2, 3, 4)),
    api(topi.transpose, {"a": NO_TENSOR, "axes": [5, "abc", {}, bad.Odd(), (0,), (0, 0), (0, 9),
                                                  ("a", 1), (0, 1.5), (None, 1)]},
        a=t(3, 4), axes=(1, 0)),
    api(topi.reshape, {"a": NO_TENSOR, "newshape": [5, "abc", None, {}, (5, -1), (-1, -1), (0, 12),
                                                    (-3, -4), (1.5, 8), ("a",), bad.Odd()]},
        a=t(3, 4), newshape=(2, -1)),
    api(topi.expand_dims, {"a": NO_TENSOR, "axis": NO_AXIS, "num_newaxis": [*bad.WHOLE, -1]},
        a=t(3, 4), axis=-1),
    api(topi.squeeze, {"a": NO_TENSOR, "axis": [*NO_AXES, 1]}, a=t(1, 4), axis=0),
    api(topi.concatenate, {"a_tuple": [*NO_TENSOR, [5], t(3, 4), [t(3, 4), t(4, 3)],
                                       [t(3, 4), t(3)]],
                           "axis": NO_AXIS},
        a_tuple=[t(3, 4), t(3, 4)], axis=1),
    api(topi.strided_slice,
        {"a": NO_TENSOR, "begin": [5, "ab", None, {}, ("a",), (0.5,), (0, 0, 0), (9,)],
         "end": [5, "ab", None, {}, ("a",), (1, 1, 1), (0,)],
         "strides": [5, "ab", {}, (0,), ("a",), (1, 1, 1), (1.5,)],
         "axes": [9, (0, 0), ("a",), {}, bad.Odd()], "slice_mode": bad.CHOICE},
        a=t(3, 4), begin=[0, 0], end=[2, 2]),
    api(topi.stack, {"tensors": [*NO_TENSOR, [5], [t(3, 4), t(4, 3)]], "axis": NO_AXIS},
        tensors=[t(3, 4), t(3, 4)], axis=1),
    api(topi.split,
        {"ary": [*NO_TENSOR, t(3, te.var("n"))], "axis": NO_AXIS,
         "indices_or_sections": [0, -1, 1.5, 3, "ab", None, {}, (0,), (4,), (3, 1), ("a",)]},
        ary=t(3, 4), indices_or_sections=2, axis=1),
    api(topi.repeat, {"a": NO_TENSOR, "repeats": bad.COUNT, "axis": NO_AXIS},
        a=t(3, 4), repeats=2, axis=1),
    api(topi.tile, {"a": NO_TENSOR, "reps": [0, -1, 1.5, "ab", None, {}, (0, 1), ("a",), len]},
        a=t(3, 4), reps=2),
    api(topi.take,
        {"a": [*NO_TENSOR, t(te.var("n"))], "indices": [*NO_TENSOR, t(3)],
         "axis": [n for n in NO_AXIS if n is not None], "batch_dims": [1, "a", None],
         "mode": bad.CHOICE},
        a=t(3, 4), indices=te.placeholder((2,), "int32"), axis=1),
    *[
        api(function, {"data": [*NO_TENSOR, t(3, 4)], "axis": NO_AXES, "keepdims": NO_FLAG},
            data=te.placeholder((3, 4), "bool"), axis=1)
        for function in (topi.any, topi.all)
    ],
    api(topi.nn.dilate,
        {"data": NO_TENSOR, "strides": [2, "ab", None, {}, (1,), (0, 1), ("a", 1), (1.5, 1)],
         "dilation_value": NO_NUMBER, "name": bad.NAME},
        data=t(3, 4), strides=(1, 2)),
    api(topi.flip, {"a": NO_TENSOR, "axis": NO_AXIS}, a=t(3, 4), axis=1),
    api(topi.nn.pad,
        {"data": NO_TENSOR, "pad_before": [5, "ab", None, {}, [1], [-1, 0], [0.5, 1], ["a", 1]],
         "pad_after": [5, "ab", {}, [1], [-1, 0], [0.5, 1]], "pad_value": ["a", None, [], t(3)],
         "name": bad.NAME},
        data=t(3, 4), pad_before=[1, 0], pad_after=[0, 1]),
    api(topi.nn.get_pad_tuple, {"padding": NO_PADDING}, padding=(1, 2), kernel=(3, 3)),
    Api("get_pad_tuple('SAME')", topi.nn.get_pad_tuple, lambda: {"padding": "SAME", "kernel": 3},
        {"kernel": NO_PAIR}),
]  # fmt: skip
IMAGES = {"stride": NO_PAIR, "padding": NO_PADDING, "dilation": NO_PAIR}
PLACED = {"stride": 1, "padding": 1, "dilation": 1}
DATA = [*NO_TENSOR, t(3, 3), t(4, 4, 4, te.var("n"))]
CONVOLVED = {**IMAGES, "data": DATA, "kernel": [*DATA, t(5, 5, 5, 5)], "out_dtype": NO_DTYPE}
FACTORS = {"bias": [5, "abc", t(3), t(5, 5)], "out_dtype": NO_DTYPE}
NETWORKS = [
    *[
        api(function, CONVOLVED, data=t(4, 4, 4, 4), kernel=t(4, 4, 4, 4), **PLACED)
        for function in (topi.nn.conv2d_nchw, topi.nn.conv2d_nhwc, topi.nn.conv2d_hwcn,
                         topi.nn.depthwise_conv2d_nchw, topi.nn.depthwise_conv2d_nhwc)
    ],
    api(topi.nn.group_conv2d_nchw, {"groups": [*bad.COUNT, 3]},
        data=t(4, 4, 4, 4), kernel=t(4, 2, 3, 3), groups=2, **PLACED),
    api(topi.nn.group_conv2d_nhwc, {"groups": [*bad.COUNT, 3]},
        data=t(4, 4, 4, 4), kernel=t(3, 3, 2, 4), groups=2, **PLACED),
    api(topi.nn.conv2d, {"strides": NO_PAIR, "data_layout": bad.CHOICE, "kernel_layout": bad.TEXT,
                         "groups": bad.COUNT},
        data=t(4, 4, 4, 4), kernel=t(4, 4, 3, 3), strides=1, padding=1),
    api(topi.nn.conv1d,
        {"data": [*NO_TENSOR, t(4, 4), t(4, 4, te.var("n"))], "kernel": [*NO_TENSOR, t(4, 5, 3)],
         "strides": [*NO_STEP, (1, 1)], "dilation": [*NO_STEP, (1, 1)], "groups": [*bad.COUNT, 3],
         "padding": ["same", "", 1.5, -1, (1, -1), (1, 2, 3), (), None, {}, (1.5, 0)],
         "data_layout": bad.CHOICE, "kernel_layout": bad.TEXT, "out_dtype": NO_DTYPE},
        data=t(4, 4, 8), kernel=t(4, 4, 3)),
    *[
        api(function,
            {"data": [*NO_TENSOR, t(4, 4)], "kernel": [*NO_TENSOR, t(5, 5, 5, 5, 5)],
             "stride": [*NO_STEP, (1, 1)], "dilation": [*NO_STEP, (1, 1)], "out_dtype": NO_DTYPE,
             "padding": ["same", 1.5, -1, (1, -1, 1), (1, 2), (), None, {}],
             "groups": [0, 2, "a"]},
            data=t(4, 4, 4, 4, 4), kernel=t(4, 4, 4, 4, 4), stride=1, padding=1)
        for function in (topi.nn.conv3d_ncdhw, topi.nn.conv3d_ndhwc)
    ],
    api(topi.nn.conv2d_winograd_nchw,
        {**CONVOLVED, "stride": [*NO_PAIR, 2], "dilation": [*NO_PAIR, 2], "tile_size": [0, 9, "a"],
         "kernel": [*DATA, t(4, 4, 3, 2), t(4, 5, 3, 3)], "pre_computed": NO_FLAG},
        data=t(4, 4, 8, 8), kernel=t(4, 4, 3, 3), **PLACED),
    api(topi.nn.conv2d_winograd_nhwc,
        {**CONVOLVED, "stride": [*NO_PAIR, 2], "dilation": [*NO_PAIR, 2], "tile_size": [0, 9, "a"],
         "kernel": [*DATA, t(3, 2, 4, 4), t(3, 3, 5, 4)], "pre_computed": NO_FLAG},
        data=t(4, 8, 8, 4), kernel=t(3, 3, 4, 4), **PLACED),
    api(topi.nn.conv2d_winograd_weight_transform,
        {"kernel": [*DATA, t(4, 4, 3, 2), t(4, 4, 9, 9)], "tile_size": [*bad.COUNT, 9]},
        kernel=t(4, 4, 3, 3), tile_size=4),
    api(topi.nn.winograd_transform_matrices,
        {"tile_size": [*bad.COUNT, 9], "kernel_size": [*bad.COUNT, 1, 9], "out_dtype": NO_DTYPE},
        tile_size=4, kernel_size=3, out_dtype="float32"),
    api(topi.nn.const_matrix,
        {"matrix": [5, None, "abc", [], [[]], [[1], [1, 2]], [["a"]], bad.Odd()],
         "dtype": NO_DTYPE, "name": bad.NAME},
        matrix=[[1, 2], [3, 4]], dtype="float32"),
    api(topi.nn.pool2d,
        {**IMAGES, "data": DATA, "kernel": [*NO_PAIR, 9], "pool_type": bad.CHOICE,
         "ceil_mode": NO_FLAG, "layout": bad.CHOICE, "count_include_pad": NO_FLAG},
        data=t(4, 4, 4, 4), kernel=2, **PLACED),
    api(topi.nn.adaptive_pool,
        {"data": DATA, "output_size": [*NO_PAIR, 3], "pool_type": bad.CHOICE,
         "layout": bad.CHOICE},
        data=t(4, 4, 4, 4), output_size=2),
    api(topi.nn.global_pool, {"data": DATA, "pool_type": bad.CHOICE, "layout": bad.CHOICE},
        data=t(4, 4, 4, 4), pool_type="max"),
    api(topi.nn.matmul,
        {**FACTORS, "tensor_a": NO_TENSOR, "tensor_b": [*NO_TENSOR, t(4), t(3, 4)],
         "transpose_a": NO_FLAG, "transpose_b": NO_FLAG},
        tensor_a=t(3, 4), tensor_b=t(4, 5)),
    api(topi.nn.dense, {**FACTORS, "data": NO_TENSOR, "weight": [*NO_TENSOR, t(4), t(4, 5)]},
        data=t(3, 4), weight=t(5, 4)),
    api(topi.matmul, {"a": NO_TENSOR, "b": [*NO_TENSOR, t(4), t(3, 4)], "transp_a": NO_FLAG},
        a=t(3, 4), b=t(4, 5)),
    api(topi.nn.batch_matmul,
        {"tensor_a": NO_TENSOR, "tensor_b": [*NO_TENSOR, t(4, 5), t(2, 5, 5), t(3, 5, 4)],
         "out_dtype": NO_DTYPE, "transpose_b": NO_FLAG},
        tensor_a=t(2, 3, 4), tensor_b=t(2, 5, 4)),
]  # fmt: skip
TOPI = [*ELEMENTS, *MOVES, *NETWORKS]
