"""Small models for tests of the importer."""

import onnx
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT


def model_of(nodes, inputs, outputs=("y",), weights=(), opset=17, **options):
    """Return a model; shapes of inputs by name."""
    given = [helper.make_tensor_value_info(k, FLOAT, v) for k, v in inputs.items()]
    made = [helper.make_tensor_value_info(k, FLOAT, None) for k in outputs]
    known = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "small", given, made, known)
    opsets = [helper.make_opsetid("", opset), *options.get("opsets", ())]
    return helper.make_model(graph, opset_imports=opsets, functions=options.get("functions"))
