"""All cases, one file a workload; importing this registers them."""

from tests.golden.cases import (
    add,
    arithmetic,
    chain,
    conv2d,
    dense_relu,
    layout_rewrite,
    masked,
    matmul,
    matmul_shared,
    matmul_tensor_core,
    matmul_wgmma,
    reduction,
    scan,
    softmax,
    stencil,
    transpose,
)

__all__ = [
    "add",
    "arithmetic",
    "chain",
    "conv2d",
    "dense_relu",
    "layout_rewrite",
    "masked",
    "matmul",
    "matmul_shared",
    "matmul_tensor_core",
    "matmul_wgmma",
    "reduction",
    "scan",
    "softmax",
    "stencil",
    "transpose",
]
