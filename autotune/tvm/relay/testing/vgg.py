"""VGG (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload

_FILTERS = (64, 128, 256, 512, 512)
_LAYERS = {
    11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4),
}  # fmt: skip


def get_feature(data: Value, counts: tuple[int, ...], batch_norm: bool = False) -> Value:
    """Return the images after all convolutions."""
    for i, (count, filters) in enumerate(zip(counts, _FILTERS, strict=True), 1):
        for j in range(1, count + 1):
            name = f"conv{i}_{j}"
            data = layers.conv2d(
                data, kernel_size=(3, 3), padding=(1, 1), channels=filters, name=name
            )
            data = nn.bias_add(data, layers.parameter(f"{name}_bias", (filters,), data))
            if batch_norm:
                data = layers.batch_norm_infer(data, name=f"bn{i}_{j}")
            data = nn.relu(data)
        data = nn.max_pool2d(data, pool_size=(2, 2), strides=(2, 2))
    return data


def get_classifier(data: Value, num_classes: int) -> Value:
    """Return one number a class."""
    data = nn.batch_flatten(data)
    for name in ("fc6", "fc7"):
        data = nn.relu(layers.dense_add_bias(data, units=4096, name=name))
        data = nn.dropout(data, rate=0.5)
    return layers.dense_add_bias(data, units=num_classes, name="fc8")


def get_net(
    batch_size: int,
    image_shape: tuple[int, ...],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """Return the network.

    Raises:
        GraphError: there is none of that many layers.
    """
    if num_layers not in _LAYERS:
        raise GraphError(f"vgg: num_layers must be 11, 13, 16 or 19, got {num_layers!r}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    feature = get_feature(data, _LAYERS[num_layers], batch_norm)
    return IRModule.from_expr(nn.softmax(get_classifier(feature, num_classes)))["main"]


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    net = get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm)
    return create_workload(net)
