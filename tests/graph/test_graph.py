"""Graphs: text, equality, checks, rewriting and running."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import (
    Constant,
    Graph,
    Node,
    TensorType,
    Variable,
    apply,
    digest,
    equal,
    graph_text,
    made_at,
    ops,
)
from autotune.graph.verify import check_computable, verify


def small(prefix="", scale=2.0):
    data = Variable(TensorType((1, 3, 8, 8)), prefix + "data")
    weight = Variable(TensorType((4, 3, 3, 3)), prefix + "weight")
    x = apply(ops.Conv2d(padding=(1, 1, 1, 1)), data, weight)
    x = apply(ops.Multiply(), x, Constant.of(np.float32(scale)))
    a, b = Node(ops.Split(2, 1), (apply(ops.Relu(), x),), "here").outputs
    return Graph((data, weight), (apply(ops.Add(), a, b),))


def test_the_text_of_a_graph_has_one_line_a_node():
    assert graph_text(small()) == (
        "data: float32[1, 3, 8, 8]\n"
        "weight: float32[4, 3, 3, 3]\n"
        "%0 = nn.conv2d(data, weight, padding=(1, 1, 1, 1)) : float32[1, 4, 8, 8]\n"
        "%1 = multiply(%0, 2.0: float32) : float32[1, 4, 8, 8]\n"
        "%2 = nn.relu(%1) : float32[1, 4, 8, 8]\n"
        "%3, %4 = split(%2, sections=2, along=1) : float32[1, 2, 8, 8], float32[1, 2, 8, 8]\n"
        "%5 = add(%3, %4) : float32[1, 2, 8, 8]\n"
        "return %5\n"
    )


def test_graphs_are_equal_whatever_their_names_and_not_with_other_attributes_or_scalars():
    assert equal(small(), small("other_"))
    assert digest(small()) == digest(small("other_"))
    assert not equal(small(), small(scale=3.0))
    assert not equal(small(), Graph.of(small().nodes[0].output))


def test_numbers_of_constants_do_not_make_graphs_differ_but_which_is_read_where_does():
    data = Variable(TensorType((2,)), "data")

    def twice(first, second):
        return Graph.of(apply(ops.Add(), apply(ops.Multiply(), data, first), second))

    a, b = Constant.of(np.ones(2, "float32")), Constant.of(np.zeros(2, "float32"))
    assert equal(twice(a, b), twice(b, a))
    assert not equal(twice(a, b), twice(a, a))


def test_running_computes_in_float64_by_default():
    graph = small()
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=(1, 3, 8, 8)), rng.normal(size=(4, 3, 3, 3))
    (out,) = graph.run(data, weight)
    assert out.dtype == np.float64
    x = np.maximum(
        2
        * ops.Conv2d(padding=(1,)).reference(
            data.astype("float32").astype("float64"), weight.astype("float32").astype("float64")
        ),
        0,
    )
    np.testing.assert_allclose(out, x[:, :2] + x[:, 2:], rtol=1e-12)
    (narrow,) = graph.run(data, weight, dtype=None)
    assert narrow.dtype == np.float32


def test_binding_makes_constants_and_leaves_other_names_alone():
    graph = small().bind({"weight": np.ones((4, 3, 3, 3)), "unknown": 3})
    assert [each.name for each in graph.inputs] == ["data"]
    assert [each.name for each in graph.constants] == ["weight", ""]
    with pytest.raises(GraphError, match=r"'weight': expected numbers of shape \(4, 3, 3, 3\)"):
        small().bind({"weight": np.ones((4, 3, 3))})


def test_a_slip_in_the_name_of_a_parameter_is_told(caplog):
    graph = small().bind({"wieght": np.ones((4, 3, 3, 3), "float32")})
    assert "no input is called 'wieght'; did you mean 'weight'? it stays an input" in caplog.text
    assert "weight" in [each.name for each in graph.inputs]


def test_other_names_of_parameters_are_ignored_in_silence(caplog):
    small().bind({"wieght": np.ones((5,)), "unknown": np.ones((4, 3, 3, 3))})
    small().bind({"weight": np.ones((4, 3, 3, 3), "float32"), "wieght": 3})
    small().bind({0: np.ones((4, 3, 3, 3)), None: np.ones((4, 3, 3, 3))})
    assert not caplog.text


def test_numbers_of_a_constant_are_made_when_asked_for_and_cannot_be_written_to():
    made = []
    constant = Constant(TensorType((2,)), lambda: made.append(1) or np.zeros(2))
    assert not made
    assert constant.array.dtype == np.float32
    assert constant.array is constant.array
    assert made == [1]
    with pytest.raises(ValueError, match="read-only"):
        constant.array[0] = 1
    with pytest.raises(GraphError, match=r"expected numbers of shape \(3,\)"):
        _ = Constant(TensorType((3,)), lambda: np.zeros(2)).array


def test_rewriting_keeps_what_does_not_change():
    graph = small()
    assert all(
        a is b for a, b in zip(graph.rewrite(lambda n, i: None).nodes, graph.nodes, strict=True)
    )


def test_the_depth_of_a_graph_has_no_limit():
    data = Variable(TensorType((2,)), "data")
    x = data
    for _ in range(20_000):
        x = apply(ops.Relu(), x, origin="loop")
    assert len(Graph.of(x).nodes) == 20_000
    assert Graph.of(x).run(np.ones(2))[0].tolist() == [1, 1]


def test_a_graph_needs_outputs_that_depend_on_its_inputs_only():
    data = Variable(TensorType((2,)), "data")
    with pytest.raises(GraphError, match="at least one output"):
        Graph((data,), ())
    with pytest.raises(GraphError, match="data must be among them"):
        Graph((), (apply(ops.Relu(), data),))
    with pytest.raises(GraphError, match="known only at run time"):
        TensorType((None, 3))
    with pytest.raises(GraphError, match=r"test_graph.py:\d+: nn.relu: input 0 must be a value"):
        apply(ops.Relu(), 3)


def test_all_that_is_wrong_is_told_at_once_with_its_places():
    data, twin = (Variable(TensorType((2, 4)), "data") for _ in range(2))
    first = Node(ops.Relu(), (data,), "model.py:3")
    object.__setattr__(first, "inputs", (Variable(TensorType((3,)), "data"),))
    graph = Graph.of(apply(ops.Add(), first.output, twin))
    with pytest.raises(GraphError) as caught:
        verify(graph)
    text = str(caught.value)
    assert "this graph is ill-formed (2):" in text
    assert "two inputs are called 'data'" in text
    assert "model.py:3: nn.relu gives float32[3], but its results are float32[2, 4]" in text
    verify(small())


def test_operators_without_a_kernel_are_listed_with_their_places():
    data = Variable(TensorType((1, 2)), "data")
    x = Node(ops.Dropout(), (data,), "a.py:1").output
    x = Node(ops.Dropout(), (apply(ops.Relu(), x),), "a.py:2").output
    with pytest.raises(GraphError) as caught:
        check_computable(Graph.of(x))
    assert "(2):\n  a.py:1: nn.dropout on float32[1, 2]\n  a.py:2: nn.dr" in str(caught.value)
    check_computable(small())


def test_operators_have_the_origin_of_the_place_where_they_are_made():
    x = Variable(TensorType((2, 3)), "x")
    with made_at("model.onnx: node 7"):
        inner = x * 2 + 1
        with made_at("node 8"):
            outer = -inner
        with pytest.raises(GraphError, match=r"^model.onnx: node 7: nn.dense"):
            apply(ops.Dense(), x, inner.astype("int32"))
    graph = Graph((x,), (apply(ops.Relu(), outer),))
    assert [node.origin for node in graph.nodes[:3]] == ["model.onnx: node 7"] * 2 + ["node 8"]
    assert graph.nodes[3].origin.partition(":")[0] == __file__


def test_values_are_combined_with_arrays_of_every_dtype():
    for dtype in ("bfloat16", "float16", "float64", "int8"):
        x, three = Variable(TensorType((2, 3), dtype), "x"), np.full((2, 3), 3, dtype)
        for combined in (x + three, three * x, x - 3, three[0, 0] - x):
            assert combined.type == TensorType((2, 3), dtype)
        (node,) = Graph((x,), (three - x,)).nodes
        assert node.inputs[1] is x
        assert (node.inputs[0].array == three).all()
    with pytest.raises(TypeError):
        x + np.full((2, 3), 1j)
