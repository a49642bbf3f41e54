"""The ready-made template library; importing it registers its tasks.

Hand-written kernels with knobs, for CUDA and the CPU: ``conv2d_nchw``, ``winograd_conv2d``,
``depthwise_conv2d``, ``pool2d``, ``gemm_nn``, ``softmax``, ``log_softmax``, ``layer_norm``,
``rms_norm``, ``group_norm``, ``reduce``, ``cumsum``, ``transpose`` and ``elementwise`` (``.cuda``
and ``.cpu``); for CUDA also ``gemm`` (batches, transposed operands and what follows a product),
``matvec``, ``conv2d_nhwc``, ``attention`` and ``take_rows``. The same and more as tensor
expressions, under ``te/``:
``conv2d_nchw``, ``depthwise_conv2d_nchw``, ``gemm``, ``dense``, ``softmax``. Layers of 8-bit
integers on a CPU are ``conv2d_int8.cpu`` and ``gemm_int8.cpu``.
Convolutions and dense layers are also there under TVM's names, with the arguments of its logs.
"""

from pathlib import Path

from autotune import hub

from . import (
    operators,
    operators_narrow,
    source,
    source_quantised,
    source_rows,
    source_volumes,
    source_windows,
    te_conv2d,
    te_gemm,
    te_softmax,
)

__all__ = [
    "operators", "operators_narrow", "source", "source_quantised", "source_rows", "source_volumes",
    "source_windows", "te_conv2d", "te_gemm", "te_softmax",
]  # fmt: skip

# Packs of tuned records of these templates: used where a program gives no other.
TUNED = Path(__file__).parent / "tuned"
hub.provide(TUNED)
