"""Layers of further networks, by what these are for: recommendation, language, vision and so on.

DLRM and other recommenders; GPT-2, Llama 2, Phi, Gemma, Falcon and T5; ViT-L, Swin, MobileNet-V2,
EfficientNet-V2 and ESRGAN; Stable Diffusion XL and DiT; Whisper, wav2vec 2.0, HiFi-GAN, LSTMs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.unseen.convs import Conv
from benchmarks.unseen.layer import PLAIN, After, Layer
from benchmarks.unseen.maps import (
    attention,
    chain,
    embedding,
    group_norm,
    norm,
    permute,
    pool,
    reduction,
    scan,
)
from benchmarks.unseen.products import Product

_BIAS, _RELU = After(True), After(True, activation="relu")
_GELU, _SILU = After(True, activation="gelu"), After(True, activation="silu")
_ADDED = After(True, residual=True)
_ADDED_RELU = After(True, residual=True, activation="relu")
_F16, _BF16, _F32, _TF32, _INT8 = "float16", "bfloat16", "float32", "tf32", "int8"
Layers = tuple[Product | Conv | Layer, ...]


def of_more_networks() -> Iterator[Layer]:
    """Yield layers, each with the subject of the networks that have it."""
    for subject, layers in {
        "recommendation": _recommendation(), "language": _language(),
        "language, attention and norms": _language_maps(), "vision": _vision(),
        "vision, others": _vision_maps(), "diffusion": _diffusion(), "speech": _speech(),
    }.items():  # fmt: skip
        for layer in layers:
            made = layer.layer() if isinstance(layer, Conv | Product) else layer
            yield replace(made, network=subject)


def _linear(m: int, n: int, k: int, dtype: str, after: After = PLAIN) -> Product:
    """Return a dense layer: weights lie [out, in]."""
    return Product(m, n, k, dtype, 1, False, True, after)


def _image(n: int, h: int, co: int, ci: int, side: int, step: int = 1, dtype: str = _F16,
           layout: str = "NHWC", after: After = _RELU, pad: int | None = None,
           **rest: Any) -> Conv:  # fmt: skip
    """Return a convolution of images by square filters."""
    pad = (side - 1) // 2 if pad is None else pad
    return Conv(
        n, h, h, co, ci, (side, side), (step, step), (pad,) * 4, layout=layout, dtype=dtype,
        after=after, **rest,
    )  # fmt: skip


def _line(n: int, length: int, co: int, ci: int, taps: int, step: int = 1, dtype: str = _F32,
          after: After = _BIAS, pad: int | None = None) -> Conv:  # fmt: skip
    """Return a convolution along a line."""
    pad = (taps - 1) // 2 if pad is None else pad
    return Conv(
        n, 1, length, co, ci, (1, taps), (1, step), (0, pad, 0, pad), dtype=dtype, after=after,
        layout="NCHW" if dtype == _F32 else "NHWC",
    )  # fmt: skip


def _recommendation() -> Layers:
    return (
        _linear(2048, 1024, 479, _F32, _RELU), _linear(2048, 1024, 480, _F16, _RELU),
        _linear(2048, 512, 1024, _F16, _RELU), _linear(128, 512, 13, _F32, _RELU),
        _linear(2048, 128, 256, _F32, _RELU), _linear(1024, 256, 1100, _F32, _RELU),
        _linear(4096, 1, 256, _F32, _BIAS), _linear(4096, 64, 128, _F32, _RELU),
        _linear(256, 400, 3328, _TF32, _RELU),
        Product(27, 27, 128, _F32, 2048, False, True),
        Product(27, 27, 128, _F16, 2048, False, True),
        Product(32, 32, 64, _F16, 4096, False, True),
        embedding(1_000_000, 128, 2048 * 26, _F16), embedding(100_000, 16, 4096 * 26),
    )  # fmt: skip


def _language() -> Layers:
    return (
        Product(1, 4096, 4096, _F16), Product(4, 11008, 4096, _F16),
        Product(16, 4096, 11008, _F16), _linear(16, 12288, 4096, _BF16),
        _linear(7, 10240, 2560, _F16, _GELU), _linear(33, 2560, 10240, _F16),
        _linear(48, 10240, 2560, _BF16, _GELU), _linear(1, 16384, 2048, _BF16),
        _linear(24, 8192, 8192, _BF16), _linear(64, 3072, 8192, _F16),
        _linear(64, 16384, 3072, _F16), _linear(40, 5120, 5120, _F16),
        _linear(12, 13824, 5120, _F16), _linear(128, 4096, 4096, _F16),
        _linear(96, 11008, 4096, _BF16), _linear(200, 3072, 3072, _BF16),
        _linear(512, 3072, 768, _BF16, _RELU), _linear(512, 32128, 512, _BF16),
        Product(1024, 2304, 768, _F16, after=_BIAS), Product(1024, 3072, 768, _F16, after=_GELU),
        _linear(16, 4096, 4096, _INT8), _linear(4, 11008, 4096, _INT8),
        _linear(48, 5120, 5120, _INT8), _linear(128, 4096, 4096, _INT8),
        _linear(128, 768, 3072, _INT8), _linear(384, 3072, 768, _INT8),
        _linear(1, 28672, 8192, _INT8), _linear(16, 8192, 8192, _INT8),
        _linear(32, 11008, 4096, _INT8), _linear(8, 3072, 768, _INT8),
        _linear(384, 3072, 768, _TF32, _GELU), _linear(384, 768, 3072, _TF32, _ADDED),
        _linear(384, 768, 768, _TF32, _ADDED),
    )  # fmt: skip


def _language_maps() -> Layers:
    return (
        attention(1, 71, 1, 1500, 64, 1, False),
        attention(4, 8, 1, 3000, 256, 1, False, _BF16),
        attention(16, 32, 1, 777, 128, 8, False),
        attention(1, 40, 1, 511, 128, 40, False),
        attention(1, 32, 600, 600, 96, 32, True, _BF16),
        attention(8, 12, 128, 128, 64, 12, False),
        norm("rms_norm", 7, 3072, _BF16),
        norm("softmax", 12 * 128 * 8, 128, _F16),
        norm("layer_norm", 512, 768, _BF16),
    )


def _vision() -> Layers:
    each: dict[str, Any] = {"depthwise": True}
    return (
        _linear(257, 4096, 1024, _F16, _GELU), _linear(257, 1024, 4096, _F16, _ADDED),
        _linear(2056, 1024, 1024, _F16, _ADDED), _image(32, 56, 144, 24, 1),
        _image(1, 56, 24, 144, 1, after=_BIAS), _image(32, 7, 1280, 320, 1),
        _image(1, 14, 96, 384, 1, after=_ADDED), _image(8, 56, 96, 24, 3, 2, after=_SILU),
        _image(8, 96, 128, 32, 3, 2, after=_SILU), _image(32, 112, 64, 3, 7, 2),
        _image(32, 224, 64, 3, 7, 2), _image(1, 284, 64, 64, 3),
        _image(1, 140, 128, 64, 3, 1, _F32, "NCHW"), _image(8, 14, 512, 512, 3),
        _image(32, 7, 512, 512, 3), _image(1, 28, 128, 128, 3), _image(1, 56, 64, 256, 1),
        _image(8, 56, 256, 64, 1, after=_ADDED_RELU),
        _image(1, 7, 2048, 512, 1, after=_ADDED_RELU),
        _image(8, 28, 128, 512, 1, 1, _TF32), _image(1, 14, 256, 256, 3, 1, _TF32),
        _image(8, 56, 64, 64, 3, 1, _TF32), _image(1, 128, 32, 64, 3),
        _image(1, 128, 32, 160, 3), _image(1, 128, 64, 192, 3, after=_ADDED),
        _image(32, 56, 1, 144, 3, **each), _image(1, 112, 1, 32, 3, **each),
        _image(8, 14, 1, 576, 5, 1, _F32, "NCHW", **each), _image(8, 1, 96, 2304, 1, after=_SILU),
        _image(1, 64, 768, 3, 16, 16, after=_BIAS, pad=0),
    )  # fmt: skip


def _vision_maps() -> Layers:
    return (
        attention(64, 3, 49, 49, 32, 3, False), attention(16, 12, 49, 49, 32, 12, False),
        attention(8, 16, 257, 257, 64, 16, False),
        pool("max", 32, (112, 112), 64, 3, 2, 1, "NHWC", _F16),
        reduction("mean", 32 * 1280, 49, 1, _F16), norm("layer_norm", 64 * 49 * 64, 96, _F16),
        permute((64, 8, 8, 7, 7, 96), (0, 1, 3, 2, 4, 5), _F16),
    )  # fmt: skip


def _diffusion() -> Layers:
    gated = (("a", (2048, 5120)), ("b", (2048, 5120)))
    return (
        _image(2, 128, 320, 320, 3, after=_BIAS), _image(2, 64, 640, 640, 3, after=_BIAS),
        _image(2, 32, 1280, 1280, 3, after=_ADDED), _image(2, 64, 640, 320, 1, after=_BIAS),
        _image(2, 128, 4, 320, 3, after=_BIAS), _image(1, 512, 128, 128, 3, after=_BIAS),
        _image(1, 128, 512, 4, 3, after=_BIAS), _image(2, 64, 640, 960, 3, after=_BIAS),
        _linear(8192, 5120, 640, _F16, _GELU), _linear(2048, 10240, 1280, _F16, _GELU),
        _linear(2048, 1280, 5120, _F16, _ADDED), _linear(154, 1280, 2048, _F16),
        _linear(2, 1280, 320, _F16, _SILU), _linear(2, 320, 1280, _F16, _BIAS),
        _linear(512, 1152, 4608, _BF16, _ADDED), _linear(256, 6912, 1152, _BF16),
        attention(2, 10, 4096, 4096, 64, 10, False), attention(2, 20, 1024, 1024, 64, 20, False),
        attention(2, 20, 1024, 77, 64, 20, False),
        attention(2, 16, 256, 256, 72, 16, False, _BF16),
        group_norm(2, 640, 32 * 32, 32, _F16), group_norm(2, 320, 128 * 128, 32, _F16),
        chain("a * sigmoid(a) * b", gated, _F16),
    )  # fmt: skip


def _speech() -> Layers:
    return (
        _line(1, 16000, 512, 1, 10, 5, pad=0), _line(1, 3199, 512, 512, 3, 2, _F16, _GELU, pad=0),
        _line(1, 3000, 1280, 128, 3, 1, _F16, _GELU), _line(1, 3000, 384, 80, 3),
        _line(1, 1000, 256, 256, 7), _line(1, 4000, 128, 128, 11), _line(16, 500, 80, 512, 5),
        _linear(5, 1280, 1280, _F16, _BIAS), _linear(5, 5120, 1280, _F16, _GELU),
        _linear(5, 1280, 5120, _F16, _ADDED), _linear(1500, 1280, 1280, _F16, _ADDED),
        _linear(1500, 5120, 1280, _F16, _GELU), _linear(749, 3072, 768, _F32, _GELU),
        _linear(400, 1024, 256, _F32, _SILU), Product(1, 2048, 512, _F32, after=_BIAS),
        _linear(16, 2048, 512, _F32, _BIAS), _linear(64, 4096, 1024, _F32, _BIAS),
        attention(5, 20, 1, 448, 64, 20, False), attention(1, 20, 1500, 1500, 64, 20, False),
        attention(1, 12, 749, 749, 64, 12, False), norm("layer_norm", 749, 768),
        norm("log_softmax", 250, 1024), scan(16, 16000), permute((1, 749, 12, 64), (0, 2, 1, 3)),
    )  # fmt: skip
