"""ResNet with pre-activation (He et al., 2016, "Identity Mappings in Deep Residual Networks")."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import add, var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload

_EPS = 2e-5
_UNITS = {
    18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3),
    152: (3, 8, 36, 3), 200: (3, 24, 36, 3), 269: (3, 30, 48, 8),
}  # fmt: skip


def residual_unit(
    data: Value,
    num_filter: int,
    stride: tuple[int, int],
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
) -> Value:
    """Add two or three convolutions to their input, or to its projection."""
    layouts: dict[str, str] = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    axis = data_layout.index("C")

    def activated(x: Value, part: str) -> Value:
        normal = layers.batch_norm_infer(x, epsilon=_EPS, axis=axis, name=f"{name}_{part}")
        return nn.relu(normal)

    def conv(x: Value, part: str, channels: int, size: int, step: tuple[int, int]) -> Value:
        return layers.conv2d(
            x, channels=channels, kernel_size=(size, size), strides=step,
            padding=(size // 2, size // 2), name=f"{name}_{part}", **layouts,
        )  # fmt: skip

    act = activated(data, "bn1")
    if bottle_neck:
        out = conv(act, "conv1", num_filter // 4, 1, stride)
        out = conv(activated(out, "bn2"), "conv2", num_filter // 4, 3, (1, 1))
        out = conv(activated(out, "bn3"), "conv3", num_filter, 1, (1, 1))
    else:
        out = conv(act, "conv1", num_filter, 3, stride)
        out = conv(activated(out, "bn2"), "conv2", num_filter, 3, (1, 1))
    shortcut = data if dim_match else conv(act, "sc", num_filter, 1, stride)
    return add(out, shortcut)


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: tuple[int, ...],
    bottle_neck: bool = True,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Stack units into stages, between a stem and a classifier."""
    axis, kernel = layout.index("C"), layers.conv_kernel_layout(layout)
    layouts: dict[str, str] = {"data_layout": layout, "kernel_layout": kernel}
    data = var("data", shape=data_shape, dtype=dtype)
    body = layers.batch_norm_infer(data, epsilon=_EPS, axis=axis, scale=False, name="bn_data")
    height = data_shape[layout.index("H")]
    first = filter_list[0]
    if height <= 32:
        body = layers.conv2d(
            body, channels=first, kernel_size=(3, 3), strides=(1, 1), padding=(1, 1),
            name="conv0", **layouts,
        )  # fmt: skip
    else:
        body = layers.conv2d(
            body, channels=first, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3),
            name="conv0", **layouts,
        )  # fmt: skip
        body = nn.relu(layers.batch_norm_infer(body, epsilon=_EPS, axis=axis, name="bn0"))
        body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage, (count, filters) in enumerate(
        zip(units[:num_stages], filter_list[1:], strict=True), 1
    ):
        for number in range(1, count + 1):
            step = 2 if stage > 1 and number == 1 else 1
            body = residual_unit(
                body, filters, (step, step), number > 1, f"stage{stage}_unit{number}",
                bottle_neck, **layouts,
            )  # fmt: skip
    body = nn.relu(layers.batch_norm_infer(body, epsilon=_EPS, axis=axis, name="bn1"))
    body = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    body = nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc1"))
    return IRModule.from_expr(body)["main"]


def plan(num_layers: int, height: int) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Return units and filters of each stage, and whether units are bottlenecks.

    Raises:
        GraphError: there is no such network.
    """
    if height <= 28:
        if (num_layers - 2) % 9 == 0 and num_layers >= 164:
            return ((num_layers - 2) // 9,) * 3, (16, 64, 128, 256), True
        if (num_layers - 2) % 6 == 0 and num_layers < 164:
            return ((num_layers - 2) // 6,) * 3, (16, 16, 32, 64), False
    elif num_layers in _UNITS:
        large = num_layers >= 50
        filters = (64, 256, 512, 1024, 2048) if large else (64, 64, 128, 256, 512)
        return _UNITS[num_layers], filters, large
    raise GraphError(f"no experiments done on num_layers {num_layers}")


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: object,
) -> Function:
    """Return the network; further keywords are ignored."""
    units, filters, bottle_neck = plan(num_layers, image_shape[layout.index("H") - 1])
    shape = (batch_size, *image_shape)
    return resnet(units, len(units), filters, num_classes, shape, bottle_neck, layout, dtype)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: object,
) -> Workload:
    """Return the network as a module, and first values of its parameters.

    Raises:
        GraphError: there is no ResNet of that many layers for such images.
    """
    return create_workload(
        get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs)
    )
