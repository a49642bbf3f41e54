"""A perceptron with two hidden layers."""

from __future__ import annotations

from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload


def get_net(
    batch_size: int,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> Function:
    """Return the network: 128, 64 and ``num_classes`` units."""
    body: Value = nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    body = nn.relu(layers.dense_add_bias(body, units=128, name="fc1"))
    body = nn.relu(layers.dense_add_bias(body, units=64, name="fc2"))
    body = nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc3"))
    return IRModule.from_expr(body)["main"]


def get_workload(
    batch_size: int,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
