"""ResNet with pre-activation on videos: convolutions over depth, height and width."""

from __future__ import annotations

from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import add, var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload
from autotune.tvm.relay.testing.resnet import plan

_EPS = 2e-5


def _activated(data: Value, name: str) -> Value:
    # On axis 1 whatever the layout is: a slip of TVM's, kept.
    return nn.relu(layers.batch_norm_infer(data, epsilon=_EPS, name=name))


def residual_unit(
    data: Value, num_filter: int, stride: int, dim_match: bool, name: str,
    bottle_neck: bool, layouts: dict[str, str],
) -> Value:  # fmt: skip
    """Add two or three convolutions to their input, or to its projection."""

    def conv(x: Value, part: str, channels: int, size: int, step: int) -> Value:
        return layers.conv3d(
            x, channels=channels, kernel_size=(size,) * 3, strides=(step,) * 3,
            padding=(size // 2,) * 3, name=f"{name}_{part}", **layouts,
        )  # fmt: skip

    act = _activated(data, f"{name}_bn1")
    if bottle_neck:
        out = conv(act, "conv1", num_filter // 4, 1, stride)
        out = conv(_activated(out, f"{name}_bn2"), "conv2", num_filter // 4, 3, 1)
        out = conv(_activated(out, f"{name}_bn3"), "conv3", num_filter, 1, 1)
    else:
        out = conv(act, "conv1", num_filter, 3, stride)
        out = conv(_activated(out, f"{name}_bn2"), "conv2", num_filter, 3, 1)
    return add(out, data if dim_match else conv(act, "sc", num_filter, 1, stride))


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: object,
) -> Function:
    """Return the network; there is no pooling after the stem."""
    layouts: dict[str, str] = {
        "data_layout": layout,
        "kernel_layout": layers.conv_kernel_layout(layout),
    }
    height = image_shape[layout.index("H") - 1]
    units, filters, bottle_neck = plan(num_layers, height)
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body = layers.batch_norm_infer(data, epsilon=_EPS, scale=False, name="bn_data")
    small = height <= 32
    body = layers.conv3d(
        body, channels=filters[0], kernel_size=(3, 3, 3) if small else (3, 7, 7),
        strides=(1, 1, 1) if small else (1, 2, 2), padding=(1, 1, 1) if small else (1, 3, 3),
        name="conv0", **layouts,
    )  # fmt: skip
    if not small:
        body = _activated(body, "bn0")
    for stage, (count, channels) in enumerate(zip(units, filters[1:], strict=True), 1):
        for number in range(1, count + 1):
            step = 2 if stage > 1 and number == 1 else 1
            name = f"stage{stage}_unit{number}"
            body = residual_unit(body, channels, step, number > 1, name, bottle_neck, layouts)
    body = nn.batch_flatten(nn.global_avg_pool3d(_activated(body, "bn1"), layout=layout))
    body = nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc1"))
    return IRModule.from_expr(body)["main"]


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: object,
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    return create_workload(
        get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs)
    )
