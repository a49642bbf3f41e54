"""A long short-term memory, unrolled: each step has its own weights and reads the same input."""

from __future__ import annotations

from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import add, multiply, sigmoid, split, tanh, var, zeros
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload


def lstm_cell(data: Value, h: Value, c: Value, step: int) -> tuple[Value, Value]:
    """Return the next output and the next state."""
    units = h.shape[1]

    def product(x: Value, name: str) -> Value:
        weight = layers.parameter(f"{name}_{step}_weight", (4 * units, units), x)
        bias = layers.parameter(f"{name}_{step}_bias", (4 * units,), x)
        return nn.bias_add(nn.dense(x, weight, units=4 * units), bias, axis=1)

    gates = add(product(data, "i2h"), product(h, "h2h"))
    enter, forget, transform, leave = split(gates, indices_or_sections=4, axis=1)
    kept = multiply(sigmoid(forget), c)
    state = add(kept, multiply(sigmoid(enter), tanh(transform)))
    return multiply(sigmoid(leave), tanh(state)), state


def get_net(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> Function:
    """Return the network: the output after the last step."""
    shape = (batch_size, num_hidden)
    data = var("data", shape=shape, dtype=dtype)
    h, c = zeros(shape, dtype), zeros(shape, dtype)
    for step in range(iterations):
        h, c = lstm_cell(data, h, c, step)
    return IRModule.from_expr(h)["main"]


def get_workload(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
