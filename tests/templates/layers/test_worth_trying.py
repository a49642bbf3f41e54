"""Each template of the registry says for which layers it is worth trying, and for which not."""

import numpy as np
import pytest

from autotune.graph import OPERATORS, Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.network import templates_for
from autotune.network.implementations import offers_of
from autotune.target import Target

KINDS = {"cuda": Target("cuda -arch=sm_90"), "cpu": Target("c")}
BIG, SAME = 2**31, {"padding": (1,)}
NHWC = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
# A layer: an operator, shapes of what it is applied to, the dtype if that is not float32. Weights
# are known numbers. Of each template those that it is worth trying for, and those that it is not.
CASES = {
    "conv2d_nchw.cuda": (
        [(ops.Conv2d(**SAME), (1, 3, 9, 9), (4, 3, 3, 3)),
         (ops.Conv2d(groups=2, dilation=(2,), padding=(0, 1, 2, 0)), (1, 4, 9, 9), (4, 2, 3, 3))],
        [(ops.Conv2d(groups=4), (1, 4, 9, 9), (4, 1, 3, 3)),
         (ops.Conv2d(), (1, 3, 9, 9), (4, 3, 3, 3), "float16")]),
    "conv2d_nchw.cpu": (
        [(ops.Conv2d(**SAME), (1, 3, 9, 9), (4, 3, 3, 3)),
         (ops.Conv2d(dilation=(2,)), (1, 3, 9, 9), (4, 3, 3, 3)),
         (ops.Conv2d(groups=2), (1, 4, 9, 9), (4, 2, 3, 3))],
        [(ops.Conv2d(groups=4), (1, 4, 9, 9), (4, 1, 3, 3))]),
    "conv2d_nhwc.cuda": (
        [(ops.Conv2d(**NHWC), (1, 9, 9, 3), (3, 3, 3, 4), "float16"),
         (ops.Conv2d(groups=2, **NHWC), (1, 9, 9, 6), (3, 3, 3, 4))],
        [(ops.Conv2d(groups=2, **NHWC), (1, 9, 9, 6), (3, 3, 3, 4), "float16")]),
    "conv2d_int8.cpu": (
        [(ops.QuantisedConv2d(padding=(1,)), ("uint8", 1, 16, 9, 9), ("int8", 16, 16, 3, 3),
          ("int32", 16), (16,), (16,)),
         (ops.QuantisedConv2d(groups=16), ("uint8", 1, 16, 9, 9), ("int8", 16, 1, 3, 3),
          ("int32", 16), (16,), (16,))],
        [(ops.QuantisedConv2d(), ("uint8", 1, 2**17, 1, 1), ("int8", 2, 2**17, 1, 1),
          ("int32", 2), (2,), (2,))]),
    "gemm_int8.cpu": (
        [(ops.QuantisedDense(), ("int8", 3, 64), ("int8", 32, 64), ("int32", 32), (32,), (32,))],
        [(ops.QuantisedDense(), ("int8", 3, 2**17), ("int8", 2, 2**17), ("int32", 2), (2,),
          (2,))]),
    "conv2d_int8.cuda": (
        [(ops.QuantisedConv2d(padding=(1,), data_layout="NHWC"), ("uint8", 1, 9, 9, 16),
          ("int8", 16, 3, 3, 16), ("int32", 16), (16,), (16,)),
         (ops.QuantisedConv2d(groups=16, data_layout="NHWC"), ("uint8", 1, 9, 9, 16),
          ("int8", 16, 3, 3, 1), ("int32", 16), (16,), (16,))],
        [(ops.QuantisedConv2d(), ("uint8", 1, 16, 9, 9), ("int8", 16, 16, 3, 3),
          ("int32", 16), (16,), (16,))]),
    "gemm_int8.cuda": (
        [(ops.QuantisedDense(), ("int8", 3, 64), ("int8", 32, 64), ("int32", 32), (32,), (32,))],
        [(ops.QuantisedDense(), ("int8", 3, 2**17), ("int8", 2, 2**17), ("int32", 2), (2,),
          (2,))]),
    "winograd_conv2d.cuda": (
        [(ops.Conv2d(**SAME), (1, 16, 9, 9), (16, 16, 3, 3))],
        [(ops.Conv2d(**SAME), (1, 15, 9, 9), (16, 15, 3, 3)),
         (ops.Conv2d((2,)), (1, 16, 9, 9), (16, 16, 3, 3)),
         (ops.Conv2d(), (1, 16, 9, 9), (16, 16, 5, 5))]),
    "winograd_conv2d.cpu": (
        [(ops.Conv2d(**SAME), (1, 16, 16, 16), (16, 16, 3, 3))],
        [(ops.Conv2d(**SAME), (1, 16, 7, 7), (8, 16, 3, 3))]),
    "te/conv2d_nchw_winograd.cuda": (
        [(ops.Conv2d(**SAME), (1, 16, 9, 9), (16, 16, 3, 3))],
        [(ops.Conv2d(), (1, 16, 9, 9), (16, 16, 1, 1))]),
    "pool2d.cuda": (
        [(ops.MaxPool2d((3,)), (1, 3, 9, 9), "bfloat16")],
        [(ops.AvgPool2d((3,), (2,), ceil_mode=True, count_include_pad=True), (1, 3, 9, 9))]),
    "pool2d.cpu": (
        [(ops.MaxPool2d((3,)), (1, 3, 9, 9))],
        [(ops.MaxPool2d((3,), layout="NHWC"), (1, 9, 9, 3))]),
    "matvec.cuda": (
        [(ops.Dense(), (1, 64), (32, 64)), (ops.Dense(), (8, 64), (32, 64)),
         (ops.Dense(), (4, 64), (32, 64), "float16")],
        [(ops.Dense(), (9, 64), (32, 64)), (ops.Dense(), (5, 64), (32, 64), "float16")]),
    "gemm.cuda": (
        [(ops.Dense(), (4, 64), (32, 64), "float16"),
         (ops.BatchMatmul(), (2, 3, 64), (2, 32, 64))],
        [(ops.Dense(), (3, 64), (32, 64), "float16"), (ops.Dense(), (9, 64), (32, 64))]),
    "gemm_nn.cuda": (
        [(ops.Dense(), (4, 64), (32, 64))], [(ops.Dense(), (3, 64), (32, 64))]),
    "gemm_nn.cpu": (
        [(ops.Dense(), (4, 64), (32, 64)), (ops.Dense(), (1, 64), (32, 64))],
        [(ops.Dense(), (4, 64), (32, 64), "float16")]),
    "gemm_packed.cpu": (
        [(ops.Dense(), (3, 64), (32, 64))], [(ops.Dense(), (2, 64), (32, 64))]),
    "gemm.cpu": (
        [(ops.BatchMatmul(), (2, 3, 64), (2, 32, 64)),
         (ops.BatchMatmul(True, False), (2, 64, 3), (1, 64, 32))],
        [(ops.BatchMatmul(), (2, 3, 64), (2, 32, 64), "float16"),
         (ops.Dense(), (4, 64), (32, 64))]),
    "attention.cpu": (
        [(ops.Attention(), *[(1, 2, 9, 60)] * 3), (ops.PackedAttention(), (1, 9, 6, 64))],
        [(ops.Attention(), *[(1, 2, 9, 64)] * 3, "float16"),
         (ops.Attention(scale=-1.0), *[(1, 2, 9, 64)] * 3)]),
    "softmax.cuda": (
        [(ops.Softmax(), (3, 5)), (ops.Softmax(1), (3, 5), "float16"), (ops.Softmax(0), (3, 5))],
        [(ops.Softmax(0), (3, BIG)), (ops.Softmax(), (BIG, 1))]),
    "softmax.cpu": ([(ops.Softmax(), (3, 5))], [(ops.Softmax(0), (3, 5))]),
    "te/softmax.cuda": ([(ops.Softmax(), (3, 5))], [(ops.Softmax(0), (3, 5))]),
    "te/softmax.cpu": ([(ops.Softmax(), (3, 5))], [(ops.Softmax(0), (3, 5))]),
    "log_softmax.cuda": (
        [(ops.LogSoftmax(), (3, 5), "float16"), (ops.LogSoftmax(0), (3, 5))],
        [(ops.LogSoftmax(0), (3, BIG))]),
    "layer_norm.cuda": (
        [(ops.LayerNorm(), (3, 5), (5,), (5,)), (ops.LayerNorm(center=False), (3, 5), (5,))],
        [(ops.LayerNorm(0), (3, 5), (3,), (3,)), (ops.LayerNorm(), (BIG, 2), (2,), (2,))]),
    "rms_norm.cuda": (
        [(ops.RmsNorm(), (3, 5), (5,))], [(ops.RmsNorm(0), (3, 5), (3,))]),
    "group_norm.cuda": (
        [(ops.GroupNorm(2), (3, 4, 5), (4,), (4,)), (ops.InstanceNorm(), (3, 4, 5), (4,), (4,))],
        [(ops.GroupNorm(1, scale=False, center=False), (1, 2, BIG)),
         (ops.GroupNorm(), (3, 4), (4,), (4,), "float64")]),
    "cumsum.cuda": (
        [(ops.Cumsum(), (3, 5)), (ops.Cumsum(), (9,), "bfloat16"), (ops.Cumsum(0), (3, 5)),
         (ops.Cumsum(), (3, 5), "int32")],
        [(ops.Cumsum(), (3, 5), "int16"), (ops.Cumsum(), (BIG,))]),
    "reduce.cuda": (
        [(ops.Sum((1, 2)), (3, 4, 5, 6)), (ops.Argmax(), (3, 5)),
         (ops.GlobalAvgPool3d(), (1, 2, 3, 4, 5)), (ops.Sum((0, 2)), (3, 4, 5))],
        [(ops.Sum((0,)), (2, BIG))]),
    "transpose.cuda": (
        [(ops.Transpose(), (3, 5), "int8"), (ops.Transpose((0, 2, 1)), (64, 2, 16))],
        [(ops.Transpose((0, 1)), (3, 5)), (ops.Transpose((-3, 1, 2)), (2, 3, 5))]),
    "take_rows.cuda": (
        [(ops.Take(), (9, 4), ("int32", 3))],
        [(ops.Take(1), (9, 4), ("int32", 3)), (ops.Take(), (9, 4), ("int8", 3))]),
    "attention.cuda": (
        [(ops.Attention(), *[(1, 2, 9, 64)] * 3, "float16"),
         (ops.Attention(True), (1, 4, 1, 256), *[(1, 1, 99, 256)] * 2, "bfloat16"),
         (ops.RowsFirstAttention(), *[(1, 9, 2, 64)] * 3, "float16"),
         (ops.PackedAttention(), (1, 9, 6, 64), "float16")],
        [(ops.Attention(), *[(1, 2, 9, 64)] * 3),
         (ops.Attention(), *[(1, 2, 9, 61)] * 3, "float16"),
         (ops.Attention(), *[(1, 2, 9, 264)] * 3, "float16"),
         (ops.Attention(scale=-1.0), *[(1, 2, 9, 64)] * 3, "float16")]),
    "elementwise.cuda": (
        [(ops.Relu(), (256, 512)), (ops.Clip(0.0, 6.0), (2**17,), "float16"),
         (ops.Gelu(), (512, 512)), (ops.Silu(), (512, 512), "bfloat16")],
        [(ops.Relu(), (255, 512)), (ops.Clip(0.0, 1e39), (512, 512)),
         (ops.Relu(), (512, 512), "int8")]),
    "elementwise.cpu": (
        [(ops.Gelu(), (256, 512)), (ops.Add(), (512, 512), (512,)),
         (ops.BiasAdd(), (2, 9, 100, 100), (9,))],
        [(ops.Gelu(), (255, 512)), (ops.Silu(), (512, 512), "float16")]),
    "conv3d.cuda": (
        [(ops.Conv3d(), (1, 2, 5, 5, 5), (3, 2, 3, 3, 3)),
         (ops.Conv3d(data_layout="NDHWC", kernel_layout="DHWIO"), (1, 5, 5, 5, 2),
          (3, 3, 3, 2, 3))],
        [(ops.Conv3d(), (1, 2, 5, 5, 5), (3, 2, 3, 3, 3), "float16"),
         (ops.Conv3d(groups=2), (1, 2, 5, 5, 5), (4, 1, 3, 3, 3)),
         # Of so many taps along depth, copies of planes are too large for kernels.
         (ops.Conv3d(padding=(4, 1, 1)), (1, 64, 64, 256, 256), (64, 64, 9, 3, 3))]),
    "conv2d_transpose.cuda": (
        [(ops.Conv2dTranspose(), (1, 2, 5, 5), (2, 3, 3, 3))],
        [(ops.Conv2dTranspose(), (1, 2, 5, 5), (2, 3, 3, 3), "float16"),
         (ops.Conv2dTranspose(padding=(1,)), (1, 2, 5, 5), (2, 3, 1, 1))]),
    "conv3d_ncdhw.cuda": (
        [(ops.Conv3d(), (1, 2, 5, 5, 5), (3, 2, 3, 3, 3))],
        [(ops.Conv3d(), (1, 2, 5, 5, 5), (3, 2, 3, 3, 3), "float16")]),
    "conv3d_ndhwc.cuda": (
        [(ops.Conv3d(data_layout="NDHWC", kernel_layout="DHWIO"), (1, 5, 5, 5, 2),
          (3, 3, 3, 2, 3))],
        [(ops.Conv3d(), (1, 2, 5, 5, 5), (3, 2, 3, 3, 3))]),
    "conv2d_transpose_nchw.cuda": (
        [(ops.Conv2dTranspose(), (1, 2, 5, 5), (2, 3, 3, 3))],
        [(ops.Conv2dTranspose(), (1, 2, 5, 5), (2, 3, 3, 3), "float16")]),
    "log_softmax.cpu": (
        [(ops.LogSoftmax(), (3, 5))],
        [(ops.LogSoftmax(0), (3, 5)), (ops.LogSoftmax(), (3, 5), "float16")]),
    "layer_norm.cpu": (
        [(ops.LayerNorm(), (3, 5), (5,), (5,)), (ops.LayerNorm(center=False), (3, 5), (5,))],
        [(ops.LayerNorm(0), (3, 5), (3,), (3,)), (ops.LayerNorm(), (BIG, 2), (2,), (2,))]),
    "rms_norm.cpu": (
        [(ops.RmsNorm(), (3, 5), (5,))],
        [(ops.RmsNorm(0), (3, 5), (3,)), (ops.RmsNorm(), (3, 5), (5,), "bfloat16")]),
    "group_norm.cpu": (
        [(ops.GroupNorm(2), (3, 4, 5), (4,), (4,)), (ops.InstanceNorm(), (3, 4, 5), (4,), (4,))],
        [(ops.GroupNorm(), (3, 4), (4,), (4,), "float64")]),
    "cumsum.cpu": (
        [(ops.Cumsum(), (3, 5)), (ops.Cumsum(), (9,))],
        [(ops.Cumsum(0), (3, 5)), (ops.Cumsum(), (3, 5), "float16")]),
    "reduce.cpu": (
        [(ops.Sum((1, 2)), (3, 4, 5, 6)), (ops.Argmax(), (3, 5)),
         (ops.GlobalAvgPool3d(), (1, 2, 3, 4, 5))],
        [(ops.Sum((0, 2)), (3, 4, 5)), (ops.Sum((0,)), (2, BIG)),
         (ops.Argmax(), (3, 5), "int32")]),
    "transpose.cpu": (
        [(ops.Transpose(), (3, 5), "int8"), (ops.Transpose((0, 2, 1)), (64, 2, 16))],
        [(ops.Transpose((0, 1)), (3, 5)), (ops.Transpose((-3, 1, 2)), (2, 3, 5))]),
}  # fmt: skip
for _kind in KINDS:
    _plain = (ops.Conv2d(**SAME), (1, 4, 9, 9), (4, 4, 3, 3))
    _each = (ops.Conv2d(groups=4, **SAME), (1, 4, 9, 9), (4, 1, 3, 3))
    _several = (ops.Conv2d(groups=4, **SAME), (1, 4, 9, 9), (8, 1, 3, 3))
    _holes = (ops.Conv2d(dilation=(2,)), (1, 4, 9, 9), (4, 4, 3, 3))
    CASES |= {
        f"depthwise_conv2d.{_kind}": ([_each, _several], [_plain]),
        f"te/depthwise_conv2d_nchw.{_kind}": ([_each], [_plain]),
        f"te/conv2d_nchw.{_kind}": ([_plain], [_each, _holes]),
        f"te/dense.{_kind}": (
            [(ops.Dense(), (3, 64), (32, 64))], [(ops.Dense(), (3, 64), (32, 64), "float16")]),
    }  # fmt: skip


def offered(template, case):
    """Return whether a template is offered for a layer."""
    op, *shapes = case
    dtype = shapes.pop() if isinstance(shapes[-1], str) else "float32"
    values = []
    for i, shape in enumerate(shapes):
        kind = TensorType(shape[1:], shape[0]) if isinstance(shape[0], str) else None
        kind = kind or TensorType(shape, dtype)
        known = i == 1 and isinstance(op, ops.Conv2d | ops.Dense)
        make = lambda kind=kind: np.zeros(kind.shape, kind.dtype)
        values.append(Constant(kind, make) if known else Variable(kind, f"x{i}"))
    (function,) = partition(Graph.of(apply(op, *values)), 0)
    target = KINDS[template.rpartition(".")[2]]
    return template in [offer.task.name for offer in offers_of(function, target)]


@pytest.fixture
def adds_products_of_bytes(monkeypatch):
    """Offer on any CPU what is for those with such instructions."""
    monkeypatch.setattr("autotune.templates.layers.quantised.has_dots", lambda target: True)


@pytest.mark.many_cases
@pytest.mark.usefixtures("adds_products_of_bytes")
@pytest.mark.parametrize("template", CASES)
def test_a_template_is_offered_where_it_is_worth_trying_and_nowhere_else(template):
    worth, not_worth = CASES[template]
    assert [case for case in worth if not offered(template, case)] == []
    assert [case for case in not_worth if offered(template, case)] == []


def test_every_template_of_the_registry_has_a_case():
    listed = {
        entry.template for name in OPERATORS for kind in KINDS
        for entry in templates_for(name, kind)
        if entry.matcher.__module__.startswith("autotune.templates")
    }  # fmt: skip
    assert listed - {*CASES} == set()
    assert all(worth and not_worth for worth, not_worth in CASES.values())
