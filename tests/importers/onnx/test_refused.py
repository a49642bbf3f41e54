"""Models whose own numbers make no sense are refused when they are read."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.importers import from_onnx

onnx = pytest.importorskip("onnx")
helper = onnx.helper
GRAMS = {
    "mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
    "ngram_counts": [0, 1], "ngram_indexes": [0, 1], "pool_int64s": [1, 2, 3],
}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "said"),
    [
        ("ReverseSequence", [(5, 3), np.array([5, 1, 9])], {}, r"sequence_lens .* 5, got 1 to 9"),
        ("RoiAlign", [(2, 3, 8, 8), (2, 4), np.array([-1, 1])], {"sampling_ratio": 1},
         r"batch_indices must be from 0 to 1, got -1 to 1"),
        ("ScatterElements", [(4, 5), np.array([[1, 1]]), (1, 2)], {"reduction": "add"},
         r"updates that are combined, must have the shape of the data, float32\[4, 5\]"),
        ("DeformConv", [(1, 4, 5, 5), (2, 4, 3, 3), (1, 18, 5, 5)], {},
         r"offset must have shape \[1, 18, 3, 3\]"),
        ("Conv", [(1, 4, 5, 5), (2, 4, 3, 3)], {"kernel_shape": [2, 2]},
         r"kernel_shape must be that of filters float32\[2, 4, 3, 3\]"),
        ("DeformConv", [(1, 4, 5, 5), (2, 4, 3, 3), (1, 18, 3, 3)], {"offset_group": 3},
         "multiples of 1 groups and of 3 groups of offsets"),
        ("Det", [(2, 3)], {}, r"at most 6 rows and as many columns, got float32\[2, 3\]"),
        ("TfIdfVectorizer", [(4,)], GRAMS | {"ngram_counts": [0, 2]}, r"3 numbers, got \[0, 2\]"),
        ("TfIdfVectorizer", [(4,)], GRAMS | {"ngram_counts": [5, 5]}, r"3 numbers, got \[5"),
        ("TfIdfVectorizer", [(4,)], GRAMS | {"max_skip_count": -1}, "got 1 to 2 and -1"),
        ("TfIdfVectorizer", [(4,)], GRAMS | {"weights": [1.0]}, "expected 2 weights, .* got 1"),
        ("OptionalGetElement", [], {}, "its optional input has no value"),
    ],
)  # fmt: skip
def test_numbers_of_a_model_that_are_no_places_are_refused(operator, inputs, attributes, said):
    names = [f"x{i}" for i in range(len(inputs))]
    given, known = [], []
    for name, each in zip(names, inputs, strict=True):
        if isinstance(each, tuple):
            given.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, each))
        else:
            known.append(onnx.numpy_helper.from_array(each, name))
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = helper.make_node(operator, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", given, [result], known)
    with pytest.raises(GraphError, match=said):
        from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
