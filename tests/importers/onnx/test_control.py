"""Branches and loops that depend on data: both sides are computed, and one is chosen."""

import logging

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.importers import from_onnx
from autotune.network import compile_network

onnx = pytest.importorskip("onnx")
helper = onnx.helper

from tests.importers.onnx.models import FLOAT, model_of  # noqa: E402

BOOL, WHOLE = onnx.TensorProto.BOOL, onnx.TensorProto.INT64


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def branch(kind, *inputs):
    return helper.make_graph([helper.make_node(kind, inputs, [kind])], kind, [], [value(kind)])


def choosing(one, other):
    """Return a model that runs one branch where an input is above 0."""
    nodes = [
        helper.make_node("Greater", ["rate", "zero"], ["high"]),
        helper.make_node("If", ["high"], ["y"], then_branch=one, else_branch=other),
    ]
    return model_of(nodes, {"x": (2, 3), "rate": (1,)}, weights={"zero": np.zeros(1, "float32")})


def test_a_branch_that_data_choose_is_the_result(caplog):
    with caplog.at_level(logging.WARNING, "autotune"):
        graph = from_onnx(choosing(branch("Exp", "x"), branch("Neg", "x"))).graph
    assert "so both branches are computed" in caplog.text
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(graph.run(x, np.ones(1))[0], np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(graph.run(x, -np.ones(1))[0], -x)


def test_branches_of_other_types_or_that_cannot_be_computed_must_be_known():
    for other in (branch("Transpose", "x"), branch("MatMul", "x", "x")):
        with pytest.raises(GraphError, match="the condition, its input 'high', must be known"):
            from_onnx(choosing(branch("Exp", "x"), other))


def looping(collects=False, most="most", times=4):
    """Return a model that doubles x while its sum is below 10."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("ReduceSum", ["twice"], ["sum"], keepdims=0),
        helper.make_node("Less", ["sum", "ten"], ["on"]),
    ]
    nodes += [helper.make_node("Identity", ["twice"], ["each"])] if collects else []
    given = [value("step", WHOLE, ()), value("goes", BOOL, ()), value("x")]
    made = [value("on", BOOL, ()), value("twice"), *([value("each")] if collects else [])]
    body = helper.make_graph(nodes, "body", given, made)
    results = ["y", *(["all"] if collects else [])]
    loop = helper.make_node("Loop", [most, "", "start"], results, body=body)
    weights = {"most": np.asarray(times), "ten": np.asarray(10, "float32")}
    return model_of([loop], {"start": (2,)}, outputs=results, weights=weights)


@pytest.mark.parametrize(("first", "times"), [(6, 1), (3, 2), (2, 3), (1, 4), (-1, 4)])
def test_a_loop_that_data_end_keeps_its_state_from_then_on(first, times):
    x = np.array([first, 0])
    (result,) = from_onnx(looping()).graph.run(x)
    np.testing.assert_allclose(result, x * 2**times)


@pytest.mark.parametrize(
    "model",
    [
        lambda: looping(collects=True), lambda: looping(most=""),
        lambda: looping(times=np.iinfo("int64").max),  # as exported `while` loops have it
    ],
)  # fmt: skip
def test_a_loop_that_data_end_must_have_an_end_and_collect_nothing(model):
    with pytest.raises(GraphError, match="its condition must be known while the model is read"):
        from_onnx(model())


def greatest_divisor():
    """Return a model of Euclid's algorithm, which ends where the rest is 0."""
    nodes = [
        helper.make_node("Mod", ["a", "b"], ["rest"]),
        helper.make_node("Div", ["a", "b"], ["times"]),
        helper.make_node("Identity", ["b"], ["old"]),
        helper.make_node("Not", ["is_zero"], ["on"]),
    ]
    nodes.insert(3, helper.make_node("Equal", ["rest", "zero"], ["is_zero"]))
    given = [value("step", WHOLE, ()), value("goes", BOOL, ()), value("a", WHOLE, ())]
    given += [value("b", WHOLE, ()), value("last", WHOLE, ())]
    made = [value("on", BOOL, ()), value("old", WHOLE, ()), value("rest", WHOLE, ())]
    body = helper.make_graph(nodes, "body", given, [*made, value("times", WHOLE, ())])
    whole = [
        helper.make_node("Cast", [name], [f"whole_{name}"], to=WHOLE)
        for name in ("first", "second")
    ]
    inputs = ["most", "", "whole_first", "whole_second", "zero"]
    loop = helper.make_node("Loop", inputs, ["divisor", "rest_", "times_"], body=body)
    cast = [
        helper.make_node("Cast", [n], [m], to=FLOAT)
        for n, m in (("divisor", "y"), ("times_", "q"))
    ]
    weights = {"most": np.asarray(9), "zero": np.asarray(0)}
    return model_of([*whole, loop, *cast], {"first": (), "second": ()}, ["y", "q"], weights)


def test_a_loop_that_has_ended_may_divide_by_zero():
    graph = from_onnx(greatest_divisor()).graph
    network = compile_network(graph, "c").instance()
    for a, b, divisor, quotient in [(12, 18, 6, 2), (7, 7, 7, 1), (35, 64, 1, 5)]:
        given = [np.asarray(n, "float32") for n in (a, b)]
        for results in (graph.run(*given), [each.numpy() for each in network(*given)]):
            assert [float(each) for each in results] == [divisor, quotient]
