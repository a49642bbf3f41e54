"""Inception v3 (Szegedy et al., 2015)."""

from __future__ import annotations

from autotune.graph import Value
from autotune.tvm.relay import nn
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.operators import concatenate, var
from autotune.tvm.relay.testing import layers
from autotune.tvm.relay.testing.init import Workload, create_workload

# A chain of convolutions: output channels, window, stride; windows of stride 1 are padded.
Chain = list[tuple[int, tuple[int, int], int]]
_1X1, _3X3, _5X5, _1X7, _7X1 = (1, 1), (3, 3), (5, 5), (1, 7), (7, 1)


def conv(
    data: Value,
    channels: int,
    kernel: tuple[int, int] = (1, 1),
    stride: int = 1,
    pad: tuple[int, int] = (0, 0),
    name: str = "",
) -> Value:
    """Convolve, normalise and activate."""
    out = layers.conv2d(
        data, channels=channels, kernel_size=kernel, strides=(stride, stride), padding=pad,
        name=f"{name}_conv1",
    )  # fmt: skip
    out = layers.batch_norm_infer(out, epsilon=2e-5, scale=False, name=f"{name}_bn")
    return nn.relu(out)


def pooling(data: Value, size: int, stride: int, pad: int, kind: str) -> Value:
    """Take the maximum, or the average with the padding counted."""
    if kind == "max":
        return nn.max_pool2d(data, pool_size=size, strides=stride, padding=pad)
    return nn.avg_pool2d(data, pool_size=size, strides=stride, padding=pad, count_include_pad=True)


def _tower(data: Value, chain: Chain, name: str) -> Value:
    """Apply convolutions one after another."""
    for number, (channels, kernel, stride) in enumerate(chain):
        pad = (kernel[0] // 2, kernel[1] // 2) if stride == 1 else (0, 0)
        suffix = f"_conv_{number}" if number else "_conv"
        data = conv(data, channels, kernel, stride, pad, f"{name}{suffix}")
    return data


def _block(data: Value, first: Chain, towers: list[Chain], pool: Value, name: str) -> Value:
    parts = [_tower(data, first, name)] if first else []
    for number, chain in enumerate(towers):
        parts.append(_tower(data, chain, f"{name}_tower_{number}" if number else f"{name}_tower"))
    return concatenate([*parts, pool], axis=1)


def _a(data: Value, proj: int, name: str) -> Value:
    pool = _tower(pooling(data, 3, 1, 1, "avg"), [(proj, _1X1, 1)], f"{name}_tower_2")
    towers: list[Chain] = [
        [(48, _1X1, 1), (64, _5X5, 1)], [(64, _1X1, 1), (96, _3X3, 1), (96, _3X3, 1)],
    ]  # fmt: skip
    return _block(data, [(64, _1X1, 1)], towers, pool, name)


def _b(data: Value, name: str) -> Value:
    towers: list[Chain] = [[(64, _1X1, 1), (96, _3X3, 1), (96, _3X3, 2)]]
    return _block(data, [(384, _3X3, 2)], towers, pooling(data, 3, 2, 0, "max"), name)


def _c(data: Value, reduced: int, name: str) -> Value:
    pool = _tower(pooling(data, 3, 1, 1, "avg"), [(192, _1X1, 1)], f"{name}_tower_2")
    r = reduced
    towers: list[Chain] = [
        [(r, _1X1, 1), (r, _1X7, 1), (192, _7X1, 1)],
        [(r, _1X1, 1), (r, _7X1, 1), (r, _1X7, 1), (r, _7X1, 1), (192, _1X7, 1)],
    ]
    return _block(data, [(192, _1X1, 1)], towers, pool, name)


def _d(data: Value, name: str) -> Value:
    towers: list[Chain] = [
        [(192, _1X1, 1), (320, _3X3, 2)],
        [(192, _1X1, 1), (192, _1X7, 1), (192, _7X1, 1), (192, _3X3, 2)],
    ]
    return _block(data, [], towers, pooling(data, 3, 2, 0, "max"), name)


def _e(data: Value, kind: str, name: str) -> Value:
    first = _tower(data, [(320, _1X1, 1)], name)
    parts = [first]
    chains: list[Chain] = [[(384, _1X1, 1)], [(448, _1X1, 1), (384, _3X3, 1)]]
    for chain, tower in zip(chains, (f"{name}_tower", f"{name}_tower_1"), strict=True):
        stem = _tower(data, chain, tower)
        parts.append(conv(stem, 384, (1, 3), 1, (0, 1), f"{tower}_mixed_conv"))
        parts.append(conv(stem, 384, (3, 1), 1, (1, 0), f"{tower}_mixed_conv_1"))
    pool = _tower(pooling(data, 3, 1, 1, kind), [(192, _1X1, 1)], f"{name}_tower_2")
    return concatenate([*parts, pool], axis=1)


def get_net(
    batch_size: int, num_classes: int, image_shape: tuple[int, ...], dtype: str
) -> Function:
    """Return the network."""
    body: Value = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body = conv(body, 32, _3X3, 2, name="conv")
    body = conv(body, 32, _3X3, name="conv_1")
    body = conv(body, 64, _3X3, pad=(1, 1), name="conv_2")
    body = pooling(body, 3, 2, 0, "max")
    body = conv(body, 80, name="conv_3")
    body = conv(body, 192, _3X3, name="conv_4")
    body = pooling(body, 3, 2, 0, "max")
    for proj, name in ((32, "mixed"), (64, "mixed_1"), (64, "mixed_2")):
        body = _a(body, proj, name)
    body = _b(body, "mixed_3")
    for number, reduced in enumerate((128, 160, 160, 192), 4):
        body = _c(body, reduced, f"mixed_{number}")
    body = _d(body, "mixed_8")
    body = _e(_e(body, "avg", "mixed_9"), "max", "mixed_10")
    body = nn.batch_flatten(pooling(body, 8, 1, 0, "avg"))
    weight = layers.parameter("fc1_weight", (num_classes, body.shape[1]), body)
    bias = layers.parameter("fc2_bias", (num_classes,), body)
    body = nn.softmax(nn.bias_add(nn.dense(body, weight, units=num_classes), bias, axis=-1))
    return IRModule.from_expr(body)["main"]


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 299, 299),
    dtype: str = "float32",
) -> Workload:
    """Return the network as a module, and first values of its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
