"""Attributes of operators that calls give: of which types, and what is refused."""

import numpy as np
import pytest

from autotune.errors import TunerError
from autotune.graph import ops
from autotune.just_in_time.attributes import operator_of


@pytest.mark.parametrize(
    ("kind", "given", "made"),
    [
        (ops.Conv2d, {"padding": 1, "strides": [2, 1]}, ops.Conv2d((2, 1), (1,))),
        (ops.Sum, {"axes": 1}, ops.Sum((1,))),
        (ops.Sum, {"axes": None, "keepdims": True}, ops.Sum(None, True)),
        (ops.Sum, {"axes": [np.int64(0), 2]}, ops.Sum((0, 2))),
        (ops.Pad, {"pad_width": [[0, 1], [2, 3]], "pad_value": 1}, ops.Pad(((0, 1), (2, 3)), 1)),
        (ops.LayerNorm, {"epsilon": 1}, ops.LayerNorm(epsilon=1)),
        (ops.Attention, {"scale": np.float32(0.5)}, ops.Attention(scale=0.5)),
        (ops.Softmax, None, ops.Softmax()),
        (ops.Softmax, {"axis": 0}, ops.Softmax(0)),
        (ops.Sum, {"axis": 1}, ops.Sum((1,))),
        (ops.Cumsum, {"axis": 0}, ops.Cumsum(0)),
    ],
)
def test_attributes_are_kept_as_operators_have_them(kind, given, made):
    assert operator_of("f", kind, given) == made


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (ops.Sum, {"axes": 1.5}, "f: attribute 'axes' of sum must be a tuple of whole numbers or "
         "None, got 1.5"),
        (ops.Sum, {"axes": (1, None)}, "'axes' of sum must be a tuple of whole numbers or None"),
        (ops.Sum, {"axes": True}, "'axes' of sum must be a tuple"),
        (ops.Softmax, {"axis_of_sum": float("nan")}, "must be a whole number, got nan"),
        (ops.LayerNorm, {"scale": 1}, "'scale' of nn.layer_norm must be True or False, got 1"),
        (ops.LayerNorm, {"epsilon": "1"}, "must be a number, got '1'"),
        (ops.Conv2d, {"data_layout": 3}, "'data_layout' of nn.conv2d must be a text, got 3"),
        (ops.Pad, {"pad_width": [(0, 1, 2)]},
         r"must be a tuple of \(a whole number, a whole number\), got"),
        (ops.Softmax, {"axes": 1}, "has no attribute 'axes'; expected some of axis; did you mean"),
        (ops.Softmax, {"axis": "last"}, "attribute 'axis' of nn.softmax must be a whole number"),
        (ops.Softmax, {"axis": 1, "axis_of_sum": 1}, "nn.softmax has no attribute 'axis'; exp"),
        (ops.Conv2d, {"stride": 1}, "has no attribute 'stride'; .*; did you mean 'strides'?"),
        (ops.Relu, {"axis": 1}, "nn.relu has no attribute 'axis'; it has none at all"),
        (ops.Softmax, [1], r"key\(...\) must be a dict of attributes of nn.softmax, got"),
    ],
)  # fmt: skip
def test_attributes_of_other_types_are_refused_by_name(kind, given, message):
    with pytest.raises(TunerError, match=message):
        operator_of("f", kind, given)
