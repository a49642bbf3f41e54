"""Networks of images as their authors wrote them, batch norms folded, by any writer of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.graph import Graph, TensorType, Variable, apply, ops
from benchmarks.networks.block_writers import Ours, Writer


def _bottleneck(w: Writer, x: Any, width: int, stride: int) -> Any:
    """Return three layers and a residual, the stride in the second (ResNet-50 v1.5)."""
    y = w.unary(w.conv(x, width), "relu")
    y = w.conv(w.unary(w.conv(y, width, 3, stride), "relu"), 4 * width)
    same = stride == 1 and x.shape[1] == 4 * width
    return w.unary(w.add(y, x if same else w.conv(x, 4 * width, 1, stride)), "relu")


def _basic(w: Writer, x: Any, width: int, stride: int) -> Any:
    """Return two layers of 3x3 and a residual (ResNet-18)."""
    y = w.conv(w.unary(w.conv(x, width, 3, stride), "relu"), width, 3)
    same = stride == 1 and x.shape[1] == width
    return w.unary(w.add(y, x if same else w.conv(x, width, 1, stride)), "relu")


def _resnet(w: Writer, x: Any, block: Callable[..., Any], depths: tuple[int, ...]) -> Any:
    """He et al., "Deep residual learning for image recognition", 2015."""
    x = w.pool(w.unary(w.conv(x, 64, 7, 2), "relu"), 3, 2)
    for stage, depth in enumerate(depths):
        for number in range(depth):
            x = block(w, x, 64 << stage, 2 if stage and not number else 1)
    return w.mean(x)


def _inverted(w: Writer, x: Any, factor: int, width: int, stride: int) -> Any:
    """Return an inverted residual."""
    wide = factor * x.shape[1]
    y = x if factor == 1 else w.unary(w.conv(x, wide), "relu6")
    y = w.conv(w.unary(w.conv(y, wide, 3, stride, wide), "relu6"), width)
    return w.add(x, y) if stride == 1 and width == x.shape[1] else y


# Factor, channels, blocks and stride of the first.
_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip


def _mobilenet(w: Writer, x: Any) -> Any:
    """Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018."""
    x = w.unary(w.conv(x, 32, 3, 2), "relu6")
    for factor, width, depth, stride in _STAGES:
        for number in range(depth):
            x = _inverted(w, x, factor, width, stride if number == 0 else 1)
    return w.mean(w.unary(w.conv(x, 1280), "relu6"))


MODELS: dict[str, Callable[[Writer, Any], Any]] = {
    "resnet-18": lambda w, x: _resnet(w, x, _basic, (2, 2, 2, 2)),
    "resnet-50": lambda w, x: _resnet(w, x, _bottleneck, (3, 4, 6, 3)),
    "mobilenet-v2": _mobilenet,
}


def graph_of(name: str, batch: int, seed: int = 0, size: int = 224) -> Graph:
    """Return a network of drawn parameters, for images of so many pixels a side."""
    writer = Ours(seed)
    x = Variable(TensorType((batch, 3, size, size), "float32"), "x")
    features = apply(ops.BatchFlatten(), MODELS[name](writer, x))
    return Graph.of(writer.linear(features, 1000))
