"""Layers of known networks that are not convolutions: products, attention, norms, reductions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
_GELU, _ADDED = After(True, activation="gelu"), After(True, residual=True)
_F16, _BF16 = "float16", "bfloat16"
NetworkLayers = Iterator[tuple[str, tuple[Product | Layer, ...]]]


def _linear(m: int, n: int, k: int, dtype: str, after: After = PLAIN, **rest: Any) -> Product:
    """Return a dense layer: weights lie [out, in]."""
    return Product(m, n, k, dtype, 1, False, True, after, **rest)


def products() -> NetworkLayers:
    """Yield products of matrices."""
    yield from _language_models()
    yield from _other_networks()
    yield from _gradients_and_other_dtypes()


def _language_models() -> NetworkLayers:
    yield (
        "Llama 3 8B",
        (
            _linear(1, 6144, 4096, _BF16),
            _linear(1, 28672, 4096, _BF16),
            _linear(1, 4096, 14336, _BF16),
            _linear(1, 128256, 4096, _BF16),
            _linear(8, 28672, 4096, _BF16),
            _linear(32, 4096, 14336, _BF16),
            _linear(512, 6144, 4096, _BF16),
            _linear(512, 28672, 4096, _BF16),
            _linear(512, 4096, 14336, _BF16),
        ),
    )
    yield (
        "Qwen2 7B and 0.5B",
        (
            _linear(1, 4608, 3584, _F16, _BIAS),
            _linear(300, 4608, 3584, _F16, _BIAS),
            _linear(300, 18944, 3584, _F16),
            _linear(64, 151936, 896, _F16),
            _linear(64, 896, 4864, _F16),
        ),
    )
    yield (
        "Mixtral, DeepSeek-MoE",
        (
            _linear(17, 14336, 4096, _BF16),
            _linear(3, 4096, 14336, _BF16),
            Product(8, 1408, 2048, _BF16, 64, False, True),
            _linear(512, 64, 2048, _BF16),
        ),
    )
    yield "LoRA", (_linear(512, 16, 4096, _F16), _linear(512, 4096, 16, _F16))


def _other_networks() -> NetworkLayers:
    yield (
        "Whisper, BERT-large, SAM, ConvNeXt, Swin",
        (
            _linear(1500, 512, 512, _F16, _ADDED),
            _linear(1500, 2048, 512, _F16, _GELU),
            _linear(1, 51865, 512, _F16),
            _linear(384, 4096, 1024, _F16, _GELU),
            _linear(384, 1024, 4096, _F16, _ADDED),
            _linear(4096, 3840, 1280, _F16, _BIAS),
            _linear(3136, 384, 96, _F16, _GELU),
            _linear(3136, 96, 384, "float32", _BIAS),
            _linear(784, 768, 192, "float32", _GELU),
            Product(49, 49, 32, "float32", 192, False, True, After(alpha=32**-0.5)),
        ),
    )
    yield (
        "MLP-Mixer, DLRM, LSTM, heads",
        (
            Product(384, 768, 196, "float32", 8, shared="a"),
            _linear(2048, 512, 13, "float32", _RELU),
            _linear(2048, 256, 512, "float32", _RELU),
            _linear(2048, 1, 256, "float32", _BIAS),
            _linear(1, 2048, 512, "float32", _BIAS),
            _linear(32, 2048, 512, "float32", _BIAS),
            _linear(8, 1000, 2048, "float32", _BIAS),
            _linear(1, 1000, 768, "float32", _BIAS),
        ),
    )


def _gradients_and_other_dtypes() -> NetworkLayers:
    yield (
        "training: gradients",
        (
            Product(768, 3072, 1024, _BF16, 1, True, False),
            Product(1024, 768, 3072, _BF16),
            Product(512, 2048, 4096, "float32", 1, True, False),
        ),
    )
    yield (
        "TF32 and int8",
        (
            _linear(1024, 4096, 1024, "tf32", _BIAS),
            Product(640, 1536, 2560, "tf32"),
            Product(896, 640, 1152, "tf32", 1, True, False),
            _linear(512, 4096, 4096, "int8"),
            _linear(64, 11008, 4096, "int8"),
        ),
    )


def attentions() -> NetworkLayers:
    """Yield attention, causal, of one query, and of images."""
    yield (
        "prefill",
        (
            attention(1, 32, 2048, 2048, 128, 8, True, _BF16),
            attention(1, 28, 1111, 1111, 128, 4, True),
            attention(2, 8, 1024, 1024, 256, 4, True, _BF16),
            attention(2, 20, 1500, 1500, 64, 20, False),
            attention(8, 16, 512, 512, 64, 16, False),
            attention(8, 12, 197, 197, 64, 12, False, _BF16),
        ),
    )
    yield (
        "decoding",
        (
            attention(1, 32, 1, 8192, 128, 8, False, _BF16),
            attention(8, 32, 1, 4096, 128, 8, False, _BF16),
            attention(1, 28, 1, 2000, 128, 4, False),
            attention(5, 20, 1, 1500, 64, 20, False),
        ),
    )
    yield (
        "diffusion and SAM",
        (
            attention(2, 8, 4096, 4096, 40, 8, False),
            attention(2, 8, 1024, 1024, 80, 8, False),
            attention(2, 8, 256, 256, 160, 8, False),
            attention(2, 10, 4096, 77, 64, 10, False),
            attention(2, 8, 1024, 77, 80, 8, False),
            attention(25, 16, 196, 196, 80, 16, False),
        ),
    )


def maps() -> NetworkLayers:
    """Yield layers that are bound by memory."""
    yield from _norms()
    yield from _reductions()
    yield from _moves_and_chains()


def _norms() -> NetworkLayers:
    yield (
        "softmax and its logarithm",
        (
            norm("softmax", 32, 128_256, _BF16),
            norm("softmax", 6 * 1500, 1500),
            norm("softmax", 12 * 512, 512, _F16),
            norm("log_softmax", 64, 151_936, _BF16),
            norm("log_softmax", 16, 50_265),
            norm("log_softmax", 4096, 29, "float32"),
        ),
    )
    yield (
        "norms",
        (
            norm("layer_norm", 1500, 512, _F16),
            norm("layer_norm", 4096, 1280, _F16),
            norm("layer_norm", 3136, 96),
            norm("layer_norm", 1, 12_288),
            norm("rms_norm", 1, 4096, _BF16),
            norm("rms_norm", 512, 3584, _BF16),
            norm("rms_norm", 512 * 32, 128, _BF16),
            group_norm(2, 320, 64 * 64, 32, _F16),
            group_norm(2, 2560, 8 * 8, 32, _F16),
            group_norm(1, 128, 512 * 512, 32, _F16),
            group_norm(1, 64, 256 * 256, 64),
        ),
    )


def _reductions() -> NetworkLayers:
    yield (
        "reductions",
        (
            scan(64, 151_936),
            scan(1, 8_000_000),
            scan(4096, 2048, _F16),
            reduction("argmax", 64, 151_936, 1),
            reduction("argmax", 32, 128_256, 1, _F16),
            reduction("mean", 8, 197, 768, _F16),
            reduction("sum", 1, 16_384, 1024, _F16),
            reduction("max", 32, 1024, 1024),
            reduction("mean", 8 * 1280, 49, 1),
            reduction("sum", 1, 4096 * 4096, 1),
            pool("avg", 1, (35, 35), 288, 3, 1, 1, "NCHW"),
        ),
    )


def _moves_and_chains() -> NetworkLayers:
    yield (
        "moves and chains",
        (
            permute((2, 320, 64, 64), (0, 2, 3, 1), _F16),
            permute((1, 1500, 8, 64), (0, 2, 1, 3), _F16),
            permute((8, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5), _F16),
            permute((1, 64, 2, 2, 128, 128), (0, 1, 4, 2, 5, 3)),
            permute((2000, 3001), (1, 0)),
            embedding(128_256, 4096, 512, _BF16),
            embedding(1_000_000, 64, 4096),
            chain("a * sigmoid(a) * b", (("a", (512, 14_336)), ("b", (512, 14_336))), _BF16),
            chain("a * sigmoid(1.702 * a)", (("a", (577, 4096)),), _F16),
            chain(
                "a + s * b", (("a", (8, 56, 56, 96)), ("s", (96,)), ("b", (8, 56, 56, 96))), _F16
            ),
        ),
    )
