"""SqueezeNet 1.0 and 1.1 (Iandola et al., 2016)."""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import concatenate, var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload

# Fires as (squeezed, expanded) channels; None stands for a pooling.
_FIRES = {
    "1.0": [(16, 64), (16, 64), (32, 128), None, (32, 128), (48, 192), (48, 192), (64, 256),
            None, (64, 256)],
    "1.1": [(16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192),
            (64, 256), (64, 256)],
}  # fmt: skip


def _conv(
    data: Value, name: str, channels: int, size: int, stride: int = 1, padding: int = 0
) -> Value:
    out = layers.conv2d(
        data, channels=channels, kernel_size=(size, size), strides=stride, padding=padding,
        name=name,
    )  # fmt: skip
    return nn.relu(nn.bias_add(out, layers.parameter(f"{name}_bias", (channels,), data)))


def _fire(data: Value, squeezed: int, expanded: int, name: str) -> Value:
    data = _conv(data, f"{name}_input_conv", squeezed, 1)
    left = _conv(data, f"{name}_left_conv", expanded, 1)
    right = _conv(data, f"{name}_right_conv", expanded, 3, padding=1)
    return concatenate((left, right), axis=1)


def _pool(data: Value) -> Value:
    return nn.max_pool2d(data, pool_size=(3, 3), strides=(2, 2))


def get_net(
    batch_size: int,
    image_shape: tuple[int, ...],
    num_classes: int,
    version: str,
    dtype: str,
) -> Function:
    """Return the network.

    Raises:
        GraphError: there is no such version.
    """
    if version not in _FIRES:
        raise GraphError(f"squeezenet: version must be '1.0' or '1.1', got {version!r}")
    body: Value = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    if version == "1.0":
        body = _conv(body, "conv1", 96, 7, 2, 3)
    else:
        body = _conv(body, "conv1", 64, 3, 2, 1)
    body, number = _pool(body), 0
    for fire in _FIRES[version]:
        if fire is None:
            body = _pool(body)
            continue
        number += 1
        body = _fire(body, *fire, f"fire{number}")
    body = _conv(nn.dropout(body, rate=0.5), "conv_final", num_classes, 1)
    body = nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(body)))
    return IRModule.from_expr(body)["main"]


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
