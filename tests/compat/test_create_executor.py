"""TVM's ``relay.create_executor``: networks as functions."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.tvm import cpu, nd, relay

X, W = np.arange(6, dtype="float32").reshape(2, 3), np.ones((4, 3), "float32")


def network(outputs=1):
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    dense = relay.nn.dense(x, w)
    body = dense if outputs == 1 else relay.Tuple([dense, relay.nn.relu(x)])
    return relay.Function([x, w], body)


@pytest.mark.parametrize("kind", ["debug", "graph", "vm", "aot"])
def test_a_module_is_a_function_of_its_inputs(kind):
    module = relay.IRModule.from_expr(network())
    function = relay.create_executor(kind, module, cpu(), "llvm").evaluate()
    np.testing.assert_array_equal(function(nd.array(X), nd.array(W)).numpy(), X @ W.T)


def test_parameters_are_given_ahead_or_by_name():
    module = relay.IRModule.from_expr(network())
    create = relay.build_module.create_executor
    ahead = create("graph", module, target="llvm", params={"w": nd.array(W)}).evaluate()
    by_name = create("graph", ctx=cpu()).evaluate(module["main"])
    np.testing.assert_array_equal(ahead(X).numpy(), by_name(X, w=W).numpy())


def test_results_are_not_overwritten_by_the_next_call():
    function = relay.create_executor(mod=relay.IRModule.from_expr(network())).evaluate()
    first = function(X, W)
    function(X + 1, W)
    np.testing.assert_array_equal(first.numpy(), X @ W.T)


def test_a_tuple_is_a_list_of_arrays():
    first, second = relay.create_executor("vm").evaluate(network(2))(X, W)
    np.testing.assert_array_equal(first.numpy(), X @ W.T)
    np.testing.assert_array_equal(second.numpy(), X)


def test_an_optimised_module_has_its_parameters_in_it():
    module = relay.IRModule.from_expr(network())
    simpler, left = relay.optimize(module, "llvm", {"w": nd.array(W)})
    assert [each.name for each in simpler["main"].params] == ["x"]
    assert not left
    function = relay.create_executor("graph", simpler, cpu(), "llvm", left).evaluate()
    np.testing.assert_array_equal(function(X).numpy(), X @ W.T)


def test_an_expression_is_evaluated_at_once():
    y = relay.var("y", shape=(2,))
    total = relay.add(y, relay.const(np.array([1, 2], "float32")))
    executor = relay.create_executor()
    got = executor.evaluate(total, {y: relay.const(np.array([10, 20], "float32"))})
    np.testing.assert_array_equal(got.numpy(), [11, 22])


@pytest.mark.parametrize(
    ("inputs", "named"), [([X], {}), ([X, W, W], {}), ([X, W], {"w": W}), ([X], {"v": W})]
)
def test_inputs_that_are_not_those_of_the_network_are_refused(inputs, named):
    function = relay.create_executor().evaluate(network())
    with pytest.raises(GraphError, match="expected one value for each of x, w; got"):
        function(*inputs, **named)


def test_inputs_have_any_name():
    a, b = relay.var("self", shape=(3,)), relay.var("key", shape=(3,))
    function = relay.create_executor().evaluate(relay.Function([a, b], relay.subtract(a, b)))
    np.testing.assert_array_equal(function(**{"self": W[0] * 3, "key": W[0]}).numpy(), W[0] * 2)


def test_what_there_is_no_executor_for_is_refused():
    with pytest.raises(GraphError, match="kind must be one of"):
        relay.create_executor("tpu")
    with pytest.raises(GraphError, match="expected expr"):
        relay.create_executor().evaluate()
