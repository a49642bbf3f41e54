"""Layers of known networks that no other benchmark and no shipped record has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.unseen.broad_convs import by_name
from benchmarks.unseen.convs import Conv
from benchmarks.unseen.layer import After, Layer
from benchmarks.unseen.maps import pool
from benchmarks.unseen.network_products import attentions, maps, products
from benchmarks.unseen.products import Product

_BIAS, _RELU = After(True), After(True, activation="relu")
_SILU, _GELU = After(True, activation="silu"), After(True, activation="gelu")
_ADDED = After(True, residual=True)
_F16, _BF16 = "float16", "bfloat16"
# Keywords of convolutions: of 16-bit floats with channels last, and depthwise.
_HALF: dict[str, Any] = {"layout": "NHWC", "dtype": _F16}
_BRAIN: dict[str, Any] = {"layout": "NHWC", "dtype": _BF16}
_EACH: dict[str, Any] = {"depthwise": True}
NetworkLayers = Iterator[tuple[str, tuple[Conv | Product | Layer, ...]]]


def of_networks() -> Iterator[Layer]:
    """Yield layers, each with the name of a network that has it."""
    windows = (
        *_classifiers(),
        *_older_classifiers(),
        *_residual_networks(),
        *_generators(),
        *_detectors(),
        *_lines_and_volumes(),
    )
    for network, layers in (*windows, *products(), *attentions(), *maps()):
        for layer in layers:
            made = layer.layer() if isinstance(layer, Conv | Product) else layer
            yield replace(made, network=network)


def _even(n: int, h: int, co: int, ci: int, side: int, step: int = 1, *, pad: int | None = None,
          w: int = 0, hole: int = 1, **rest: Any) -> Conv:  # fmt: skip
    """Return a convolution of square filters, padded so that a stride of 1 keeps extents."""
    pad = (side - 1) * hole // 2 if pad is None else pad
    return Conv(n, h, w or h, co, ci, (side, side), (step, step), (pad,) * 4, (hole, hole), **rest)


def _line(n: int, length: int, co: int, ci: int, size: int, step: int = 1, hole: int = 1,
          **rest: Any) -> Conv:  # fmt: skip
    """Return a convolution along a line, as speech has them: of images of one row."""
    pad = (size - 1) * hole // 2
    return Conv(
        n, 1, length, co, ci, (1, size), (1, step), (0, pad, 0, pad), (1, hole), **rest
    )  # fmt: skip


def _classifiers() -> NetworkLayers:
    """Yield layers of networks that classify images."""
    yield (
        "EfficientNet-B4",
        (
            _even(1, 380, 48, 3, 3, 2, after=_SILU),
            _even(1, 190, 144, 24, 1, after=_SILU),
            Conv(1, 190, 190, 1, 144, (3, 3), (2, 2), (0, 0, 1, 1), after=_SILU, depthwise=True),
            Conv(1, 95, 95, 1, 192, (5, 5), (2, 2), (2, 2, 2, 2), after=_SILU, depthwise=True),
            _even(1, 24, 1, 672, 5, after=_SILU, **_EACH),
            _even(1, 1, 56, 1344, 1, after=_SILU),
            _even(8, 12, 272, 1632, 1, after=_ADDED, **_HALF),
        ),
    )
    yield (
        "ConvNeXt",
        (
            _even(1, 224, 96, 3, 4, 4, pad=0, after=_BIAS),
            _even(1, 56, 192, 96, 2, 2, pad=0, after=_BIAS),
            _even(1, 14, 1, 512, 7, after=_BIAS, **_EACH),
            _even(8, 28, 1, 256, 7, after=_BIAS, **_EACH, **_HALF),
            _even(8, 7, 1, 1024, 7, after=_BIAS, **_EACH, **_HALF),
        ),
    )
    yield (
        "ViT, CLIP, SAM",
        (
            _even(1, 224, 768, 3, 16, 16, pad=0, after=_BIAS),
            _even(1, 336, 1024, 3, 14, 14, pad=0, after=_BIAS, **_HALF),
            _even(1, 64, 256, 1280, 1, **_HALF),
            _even(1, 64, 256, 256, 3, **_HALF),
        ),
    )


def _older_classifiers() -> NetworkLayers:
    """Yield layers of networks that classify images, of 2015 and 2016."""
    yield (
        "DenseNet-121",
        (
            _even(1, 28, 128, 320, 1, after=_RELU),
            _even(1, 28, 32, 128, 3),
            _even(1, 14, 512, 1024, 1, after=_RELU),
            _even(1, 7, 32, 128, 3),
        ),
    )
    yield (
        "Inception-v3",
        (
            _even(1, 147, 64, 32, 3, after=_RELU),
            _even(1, 35, 384, 288, 3, 2, pad=0, after=_RELU),
            Conv(1, 17, 17, 160, 160, (1, 7), padding=(0, 3, 0, 3), after=_RELU),
            Conv(1, 8, 8, 384, 384, (3, 1), padding=(1, 0, 1, 0), after=_RELU),
            _even(8, 35, 64, 48, 5, after=_RELU, **_HALF),
        ),
    )


def _residual_networks() -> NetworkLayers:
    """Yield layers of residual networks, in groups and as TF32, and of VGG-16."""
    yield (
        "ResNeXt-50, RegNetY",
        (
            _even(1, 56, 256, 256, 3, 2, groups=32, after=_RELU),
            _even(1, 7, 1024, 1024, 3, groups=32, after=_RELU),
            _even(1, 28, 448, 448, 3, groups=8, after=_RELU),
            _even(8, 28, 256, 256, 3, groups=32, after=_RELU, **_HALF),
            _even(8, 28, 448, 448, 3, groups=8, after=_RELU, **_HALF),
            _even(1, 28, 512, 512, 3, 2, groups=32, after=_RELU, layout="NHWC"),
        ),
    )
    yield (
        "VGG-16, SRGAN",
        (
            _even(1, 112, 128, 128, 3, after=_RELU),
            _even(1, 14, 512, 512, 3, after=_RELU),
            _even(1, 96, 64, 3, 9, after=_BIAS),
            pool("max", 8, (224, 224), 64, 2, 2, 0, "NCHW"),
        ),
    )
    yield (
        "ResNet-50, TF32",
        (
            _even(8, 28, 128, 128, 3, after=_RELU, layout="NHWC", dtype="tf32"),
            _even(8, 14, 256, 1024, 1, after=_RELU, layout="NHWC", dtype="tf32"),
            _even(1, 56, 64, 64, 3, after=_RELU, layout="NHWC"),
            _even(8, 7, 512, 2048, 1, after=_RELU, layout="NHWC"),
        ),
    )


def _generators() -> NetworkLayers:
    """Yield layers of networks that generate images."""
    yield (
        "Stable Diffusion, U-Net",
        (
            _even(2, 32, 640, 640, 3, after=_BIAS, **_HALF),
            _even(2, 16, 1280, 2560, 3, after=_BIAS, **_HALF),
            _even(2, 8, 1280, 1280, 3, after=_ADDED, **_HALF),
            _even(2, 64, 320, 960, 1, after=_BIAS, **_HALF),
            _even(2, 64, 320, 320, 3, 2, after=_BIAS, **_HALF),
            _even(2, 64, 4, 320, 3, after=_BIAS, **_HALF),
            _even(1, 64, 512, 512, 3, after=_BIAS, **_BRAIN),
            _even(1, 256, 3, 128, 3, after=_BIAS, **_HALF),
        ),
    )
    yield (
        "last layers: SD's decoder, ESRGAN, RAFT",
        (
            _even(1, 512, 3, 128, 3, after=_BIAS, **_HALF),
            _even(1, 256, 3, 64, 3, after=_BIAS, **_HALF),
            _even(1, 55, 2, 256, 3, w=128, after=_BIAS, **_HALF),
        ),
    )


def _detectors() -> NetworkLayers:
    """Yield layers of networks that detect and segment."""
    yield (
        "YOLOv8s",
        (
            _even(1, 640, 32, 3, 3, 2, after=_SILU),
            _even(1, 160, 128, 64, 3, 2, after=_SILU),
            _even(1, 80, 64, 128, 1, after=_SILU),
            _even(1, 640, 32, 3, 3, 2, after=_SILU, **_HALF),
            _even(1, 80, 128, 128, 3, after=_SILU, **_HALF),
            _even(1, 20, 512, 1024, 1, after=_SILU, **_HALF),
            pool("max", 1, (20, 20), 256, 5, 1, 2, "NHWC", _F16),
        ),
    )
    yield (
        "DeepLabv3",
        (
            _even(1, 33, 256, 2048, 3, hole=6, after=_RELU),
            _even(1, 33, 512, 512, 3, hole=4, after=_RELU),
            _even(1, 33, 256, 2048, 3, hole=18, after=_RELU, **_HALF),
        ),
    )


def _lines_and_volumes() -> NetworkLayers:
    """Yield layers of speech and video, and transposed convolutions."""
    yield (
        "Whisper, wav2vec 2.0, HiFi-GAN, WaveNet",
        (
            _line(1, 3000, 512, 80, 3, after=_GELU),
            _line(1, 3000, 512, 512, 3, 2, after=_GELU),
            _line(1, 3199, 512, 512, 3, 2, after=_GELU, **_HALF),
            _line(1, 8192, 128, 128, 11, hole=5, after=_BIAS),
            _line(1, 4000, 64, 64, 3, hole=512),
            _line(8, 1000, 1, 512, 31, after=_SILU, **_EACH),
        ),
    )
    yield (
        "R(2+1)D, I3D, U-Net 3D",
        (
            _even(8, 56, 144, 64, 3, after=_RELU),
            Conv(1, 8, 3136, 64, 144, (3, 1), padding=(1, 0, 1, 0), after=_RELU),
            _volume(1, 64, 8, 28, 64, 3),
            _volume(1, 32, 16, 32, 64, 1),
        ),
    )
    yield "DCGAN, FCN", (spread(1, 512, 8, 256, 4, 2, 1), spread(8, 128, 16, 64, 4, 2, 1))


def _volume(n: int, ci: int, depth: int, side: int, co: int, size: int) -> Layer:
    """Return a convolution of images of depth, height and width."""
    args = ((n, ci, depth, side, side), (co, ci, size, size, size), (1,), (size // 2,))
    layer = by_name("conv3d.cuda", "conv3d", args, {"padding": size // 2})
    return replace(layer, kind="conv NCDHW float32")


def spread(n: int, ci: int, side: int, co: int, size: int, step: int, pad: int) -> Layer:
    """Return a transposed convolution."""
    args = ((n, ci, side, side), (ci, co, size, size), (step,), (pad,))
    options = {"stride": step, "padding": pad}
    layer = by_name("conv2d_transpose.cuda", "conv_transpose2d", args, options)
    return replace(layer, kind="conv transposed float32")
