"""A model in ONNX, read, compiled for this CPU, run and written to a file.

Usage:
    python import_onnx.py
"""

import numpy
import onnx
from onnx import helper, numpy_helper

from autotune.importers import from_onnx
from autotune.network import compile_network, export_network, load_network


def small_model() -> onnx.ModelProto:
    """Return a convolution with a batch norm, an activation, pooling and a dense layer."""
    rng = numpy.random.default_rng(0)
    shapes = {"filters": (8, 3, 3, 3), "scale": (8,), "bias": (8,), "mean": (8,), "dense": (8, 10)}
    numbers = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    numbers["variance"] = rng.uniform(0.5, 1, 8).astype("float32")
    weights = [numpy_helper.from_array(array, name) for name, array in numbers.items()]
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "dense"], ["m"]),
        helper.make_node("Softmax", ["m"], ["classes"]),
    ]
    image = helper.make_tensor_value_info("image", 1, ["batch", 3, 32, 32])
    classes = helper.make_tensor_value_info("classes", 1, ["batch", 10])
    graph = helper.make_graph(nodes, "small", [image], [classes], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


if __name__ == "__main__":
    onnx.save(small_model(), "small.onnx")
    model = from_onnx("small.onnx", {"batch": 1})
    network = compile_network(model.graph, "llvm")
    image = numpy.random.default_rng(1).normal(size=(1, 3, 32, 32)).astype("float32")
    (classes,) = network.instance()(image)
    print("class", classes.numpy().argmax(), "of", classes.shape[1])

    export_network(network, "small.network")  # needs neither the model nor a compiler any more
    (again,) = load_network("small.network").instance()(image)
    print("the same from the file:", bool((again.numpy() == classes.numpy()).all()))
