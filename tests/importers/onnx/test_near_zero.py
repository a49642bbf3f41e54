"""What is small stays exact in operators that take 1 from it, or add it to 1."""

import numpy as np
import pytest

from autotune.importers import from_onnx

onnx = pytest.importorskip("onnx")

SMALL = np.array([-30.0, -1.0, -1e-3, -1e-6, 1e-6, 2.0], np.float32)
EXACT = {
    "Elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Softplus": lambda x: np.logaddexp(x, 0),
}


@pytest.mark.parametrize("kind", EXACT)
def test_activations_of_small_numbers_are_exact(kind):
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, ["x"], ["y"])],
        "one",
        [onnx.helper.make_tensor_value_info("x", floats, SMALL.shape)],
        [onnx.helper.make_tensor_value_info("y", floats, SMALL.shape)],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    (got,) = from_onnx(onnx.helper.make_model(graph, opset_imports=opsets)).graph.run(
        SMALL, dtype=None
    )
    np.testing.assert_allclose(got, EXACT[kind](SMALL.astype(np.float64)), rtol=1e-6)
