"""MobileNet v1 (Howard et al., 2017)."""

from __future__ import annotations

from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload

# Channels that come in, channels that go out, and the stride of each block.
_BLOCKS = (
    (32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
    *[(512, 512, 1)] * 5, (512, 1024, 2), (1024, 1024, 1),
)  # fmt: skip


def conv_block(data: Value, name: str, channels: int, layout: str) -> Value:
    """Convolve, normalise and activate; on axis 1 whatever the layout is, a slip of TVM's."""
    conv = layers.conv2d(
        data, channels=channels, kernel_size=(3, 3), strides=(2, 2), padding=(1, 1),
        data_layout=layout, kernel_layout=layers.conv_kernel_layout(layout), name=f"{name}_conv",
    )  # fmt: skip
    return nn.relu(layers.batch_norm_infer(conv, epsilon=1e-5, name=f"{name}_bn"))


def separable_conv_block(
    data: Value, name: str, inside: int, outside: int, stride: int, layout: str
) -> Value:
    """Convolve each channel by itself, then all of a pixel."""
    axis = layout.index("C")
    shape = (inside, 1, 3, 3) if layout == "NCHW" else (3, 3, inside, 1)
    weight = layers.parameter(f"{name}_weight", shape, data)
    conv = layers.conv2d(
        data, weight, channels=inside, groups=inside, kernel_size=(3, 3),
        strides=(stride, stride), padding=(1, 1), data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout, True), name=f"{name}_depthwise_conv1",
    )  # fmt: skip
    act = nn.relu(layers.batch_norm_infer(conv, epsilon=1e-5, axis=axis, name=f"{name}_bn1"))
    conv = layers.conv2d(
        act, channels=outside, kernel_size=(1, 1), data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout), name=f"{name}_conv2",
    )  # fmt: skip
    return nn.relu(layers.batch_norm_infer(conv, epsilon=1e-5, axis=axis, name=f"{name}_bn2"))


def mobile_net(
    num_classes: int = 1000,
    data_shape: tuple[int, ...] = (1, 3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Return the network."""
    body: Value = var("data", shape=data_shape, dtype=dtype)
    body = conv_block(body, "conv_block_1", 32, layout)
    for number, (inside, outside, stride) in enumerate(_BLOCKS, 1):
        name = f"separable_conv_block_{number}"
        body = separable_conv_block(body, name, inside, outside, stride, layout)
    body = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    weight = layers.parameter("fc_weight", (num_classes, body.shape[1]), body)
    bias = layers.parameter("fc_bias", (num_classes,), body)
    body = nn.softmax(nn.bias_add(nn.dense(body, weight, units=num_classes), bias))
    return IRModule.from_expr(body)["main"]


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, layout))
