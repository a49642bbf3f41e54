"""Products on tensor cores, tile by tile of a warp."""

from tests.golden.case import case
from tests.lowering.tensor_core_products import product


@case("cuda")
def matmul_tensor_core():
    return product(128, 64, 64, out="float32")


@case("cuda")
def matmul_tensor_core_along_steps():
    return product(128, 64, 64, transposed=(False, False))


@case("cuda")
def matmul_tensor_core_tf32():
    return product(128, 64, 64, dtype="tf32", out="float32")


@case("cuda")
def matmul_tensor_core_over_zeros():
    return product(64, 64, 90, out="float32")
