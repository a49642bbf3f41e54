"""Operators that have no kernel for integers say so, by their own names."""

import pytest

from autotune.errors import GraphError
from autotune.tvm import relay


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("mean", lambda x: relay.mean(x, axis=1)),
        ("nn.avg_pool2d", lambda x: relay.nn.avg_pool2d(x, (2, 2))),
        ("divide", lambda x: relay.divide(x, relay.const(3, "int32"))),
    ],
)
def test_divisions_of_integers_are_refused_at_the_line_of_the_operator(name, function):
    x = relay.var("x", shape=(1, 4, 8, 8), dtype="int32")
    module = relay.Function([x], function(x))
    with pytest.raises(GraphError) as caught:
        relay.build(module, target="llvm")
    message = str(caught.value)
    assert f"{name} has no kernel for int32: cast its inputs first" in message
    assert "test_integers.py" in message
    assert "thread.py" not in message
