"""DenseNet as TVM has it: each layer reads only the one before; a block's layers are joined."""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import concatenate, var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload

# First channels, channels that a layer adds, layers of each block. 69 stands in TVM.
_SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (69, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
_WIDER = 4


def _activated(data: Value, name: str) -> Value:
    return nn.relu(layers.batch_norm_infer(data, name=name))


def _layer(data: Value, growth: int, index: str) -> Value:
    data = _activated(data, f"batch_1_{index}")
    data = layers.conv2d(
        data, channels=_WIDER * growth, kernel_size=(1, 1), name=f"conv2d_1_{index}"
    )
    data = _activated(data, f"batch_2_{index}")
    return layers.conv2d(
        data, channels=growth, kernel_size=(3, 3), padding=(1, 1), name=f"conv2d_2_{index}"
    )


def _block(data: Value, count: int, growth: int, index: int) -> Value:
    parts = []
    for i in range(count):
        data = _layer(data, growth, f"{index}_{i}")
        parts.append(data)
    return concatenate(parts, axis=1)


def _transition(data: Value, features: int, index: int) -> Value:
    data = _activated(data, f"batch_t_{index}")
    data = layers.conv2d(data, channels=features, kernel_size=(1, 1), name=f"conv_t_{index}")
    return nn.avg_pool2d(data, pool_size=(2, 2), strides=(2, 2))


def get_net(densenet_size: int, classes: int, data_shape: tuple[int, ...], dtype: str) -> Function:
    """Return the network.

    Raises:
        GraphError: there is none of that size.
    """
    if densenet_size not in _SIZES:
        raise GraphError(f"densenet: size must be one of {[*_SIZES]}, got {densenet_size!r}")
    features, growth, blocks = _SIZES[densenet_size]
    body: Value = var("data", shape=data_shape, dtype=dtype)
    body = layers.conv2d(
        body, channels=features, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1"
    )
    body = nn.max_pool2d(
        _activated(body, "batch1"), pool_size=(3, 3), strides=(2, 2), padding=(1, 1)
    )
    for i, count in enumerate(blocks):
        body = _block(body, count, growth, i)
        features += count * growth
        if i < len(blocks) - 1:
            features //= 2
            body = _transition(body, features, i)
    body = nn.avg_pool2d(_activated(body, "batch2"), pool_size=(7, 7))
    body = layers.dense_add_bias(nn.batch_flatten(body), units=classes, name="dense")
    return IRModule.from_expr(body)["main"]


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    return create_workload(get_net(densenet_size, classes, (batch_size, *image_shape), dtype))
