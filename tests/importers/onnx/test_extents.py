"""Tensors without elements, and models that would take time or memory without end."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.importers import from_onnx

onnx = pytest.importorskip("onnx")
helper = onnx.helper

from tests.importers.onnx.models import model_of  # noqa: E402


def test_a_model_cannot_fill_the_memory_by_a_shape():
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["ones"]),
        helper.make_node("Add", ["x", "ones"], ["y"]),
    ]
    model = model_of(nodes, {"x": (1,)}, weights={"shape": np.array([1 << 40])})
    with pytest.raises(GraphError, match="at most 268435456 elements are made"):
        from_onnx(model)


def cached(axis=1):
    """Return a model that adds rows to a cache, and sums what is in it."""
    nodes = [
        helper.make_node("Mul", ["past", "two"], ["old"]),
        helper.make_node("Concat", ["old", "x"], ["present"], axis=1),
        helper.make_node("ReduceSum", ["present", "axis"], ["y"], keepdims=0),
    ]
    weights = {"two": np.float32(2), "axis": np.array([axis])}
    return model_of(nodes, {"past": (1, "rows", 3), "x": (1, 2, 3)}, ("present", "y"), weights)


def test_a_cache_without_rows_is_no_input():
    x = np.arange(6, dtype="float32").reshape(1, 2, 3)
    network = from_onnx(cached(), {"rows": 0})
    assert [each.name for each in network.graph.inputs] == ["x"]
    present, total = network.graph.run(x)
    np.testing.assert_array_equal(present, x)
    np.testing.assert_array_equal(total, x.sum(1))
    assert [each.name for each in from_onnx(cached(), {"rows": 4}).graph.inputs] == ["past", "x"]


@pytest.mark.parametrize(("node", "more", "expected"), [
    (("MatMul", ["e", "f"]), {}, np.zeros((2, 3))),
    (("ReduceMax", ["e", "one"]), {"keepdims": 0}, np.full(2, -np.inf)),
    (("ReduceProd", ["e", "one"]), {"keepdims": 1}, np.ones((2, 1))),
    (("Gather", ["x", "none"]), {}, np.zeros((0, 3))),
    (("Tile", ["x", "zero"]), {}, np.zeros((0, 3))),
    (("TopK", ["x", "nil"]), {}, np.zeros((2, 0))),
    (("Expand", ["c", "wide"]), {}, np.zeros((2, 0, 3))),
    (("Add", ["e", "d"]), {}, np.zeros((2, 0))),
    (("Flatten", ["e"]), {"axis": 2}, np.zeros((0, 1))),
    (("LogSoftmax", ["e"]), {"axis": 0}, np.zeros((2, 0))),
    (("ConvTranspose", ["images", "filters"]), {}, np.zeros((0, 2, 4, 4))),
    (("GlobalAveragePool", ["images"]), {}, np.zeros((0, 1, 1, 1))),
    (("Pad", ["x", "away"]), {}, np.zeros((2, 0))),
], ids=[
    "MatMul", "Max", "Prod", "Gather", "Tile", "TopK", "Expand", "Add", "Flatten", "LogSoftmax",
    "ConvTranspose", "GlobalAveragePool", "Pad",
])  # fmt: skip
def test_operators_on_tensors_without_elements_give_the_shapes_of_onnx(node, more, expected):
    """The result is joined with others, as a network has no result without elements."""
    weights = {
        "e": np.zeros((2, 0), "float32"), "f": np.zeros((0, 3), "float32"), "one": np.array([1]),
        "none": np.zeros(0, "int64"), "zero": np.array([0, 1]), "nil": np.array([0]),
        "wide": np.array([2, 0, 3]), "flat": np.array([-1]), "v": np.ones(1, "float32"),
        "images": np.zeros((0, 1, 3, 3), "float32"), "filters": np.ones((1, 2, 2, 2), "float32"),
        "away": np.array([0, 0, 0, -3]),
    }  # fmt: skip
    kind, inputs = node
    nodes = [
        helper.make_node(kind, inputs, ["r", "s"] if kind == "TopK" else ["r"], **more),
        helper.make_node("Reshape", ["r", "flat"], ["line"]),
        helper.make_node("Concat", ["line", "v"], ["all"], axis=0),
        helper.make_node("Shape", ["r"], ["extents"]),
    ]
    given = {"x": (2, 3), "c": (2, 1, 3), "d": (2, 1)}
    model = model_of(nodes, given, ("all", "extents"), weights, opset=18)
    network = from_onnx(model)
    whole, extents = network.graph.run(*[np.ones(each.shape) for each in network.graph.inputs])
    np.testing.assert_array_equal(extents, expected.shape)
    np.testing.assert_array_equal(whole, [*expected.reshape(-1), 1])


def test_a_result_that_depends_on_data_and_on_a_tensor_without_elements_is_refused():
    nodes = [helper.make_node("Gemm", ["a", "b", "x"], ["y"])]
    weights = {"a": np.zeros((2, 0), "float32"), "b": np.zeros((0, 3), "float32")}
    with pytest.raises(GraphError, match="its result depends on the network's inputs"):
        from_onnx(model_of(nodes, {"x": (2, 3)}, weights=weights))


def test_loops_and_functions_cannot_unroll_without_end(monkeypatch):
    monkeypatch.setattr("autotune.importers.onnx.convert._MOST", 200)
    own = [helper.make_opsetid("own", 1), helper.make_opsetid("", 17)]
    functions = []
    for depth in range(20):  # each calls the next one twice
        kind, domain = (f"F{depth + 1}", "own") if depth < 19 else ("Relu", "")
        inner = [helper.make_node(kind, [a], [b], domain=domain) for a, b in ("ab", "bc")]
        functions.append(helper.make_function("own", f"F{depth}", ["a"], ["c"], inner, own))
    nodes = [helper.make_node("F0", ["x"], ["y"], domain="own")]
    model = model_of(nodes, {"x": (2,)}, functions=functions, opsets=own[:1])
    with pytest.raises(GraphError, match="unroll to more than 200 operators"):
        from_onnx(model)


@pytest.mark.parametrize(("kind", "shape", "weights", "said"), [
    ("OneHot", (3,), {"d": np.array(1 << 50), "v": np.ones(2, "float32")}, "at most 268435456"),
    ("EyeLike", (1 << 20, 1 << 20), {}, "at most 268435456"),
    ("DFT", (1, 4, 1), {"n": np.array(1 << 40)}, "at most 268435456"),
])  # fmt: skip
def test_attributes_and_inputs_cannot_fill_the_memory(kind, shape, weights, said):
    nodes = [helper.make_node(kind, ["x", *weights], ["y"])]
    with pytest.raises(GraphError, match=said):
        from_onnx(model_of(nodes, {"x": shape}, weights=weights))


@pytest.mark.parametrize(("node", "weights"), [
    (("ReduceMax", ["e", "axes"]), {"e": np.zeros((1 << 20, 1 << 20, 0), "float32"),
                                    "axes": np.array([2])}),
    (("MatMul", ["e", "f"]), {"e": np.zeros((1 << 20, 0), "float32"),
                              "f": np.zeros((0, 1 << 20), "float32")}),
    (("Pad", ["e", "pads"]), {"e": np.zeros(0, "float32"), "pads": np.array([0, 1 << 40])}),
    (("Tile", ["x", "repeats"]), {"repeats": np.array([1 << 40, 0])}),
], ids=["ReduceMax", "MatMul", "Pad", "Tile"])  # fmt: skip
def test_tensors_without_elements_cannot_fill_the_memory(node, weights):
    nodes = [helper.make_node(*node, ["r"]), helper.make_node("Shape", ["r"], ["y"])]
    model = model_of(nodes, {"x": (2, 3)}, weights=weights, opset=18)
    if node[0] == "Tile":
        (extents,) = from_onnx(model).graph.run(np.ones((2, 3)))
        np.testing.assert_array_equal(extents, [1 << 41, 0])
    else:
        with pytest.raises(GraphError, match="at most 268435456 elements"):
            from_onnx(model)
