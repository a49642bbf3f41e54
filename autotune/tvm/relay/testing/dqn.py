"""The network of "Human-level control through deep reinforcement learning" (Mnih et al., 2015)."""

from __future__ import annotations

from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload


def get_net(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Return the network."""
    axis, kernel = layout.index("C"), layers.conv_kernel_layout(layout)
    body: Value = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for number, (channels, size, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 1):
        name = f"conv{number}"
        bias = layers.parameter(f"{name}_bias", (channels,), body)
        body = layers.conv2d(
            body, channels=channels, kernel_size=(size, size), strides=(stride, stride),
            padding=(0, 0), data_layout=layout, kernel_layout=kernel, name=name,
        )  # fmt: skip
        body = nn.relu(nn.bias_add(body, bias, axis))
    body = nn.batch_flatten(body)
    body = nn.relu(layers.dense_add_bias(body, units=512, name="dense1"))
    body = layers.dense_add_bias(body, units=num_actions, name="dense2")
    return IRModule.from_expr(body)["main"]


def get_workload(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
