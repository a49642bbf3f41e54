"""Products on Hopper's tensor cores, from a ring of asynchronous copies."""

from tests.golden.case import case
from tests.lowering.warpgroup_products import Tiles, product


@case("cuda")
def matmul_wgmma():
    return product(128, 128, 256, Tiles(rows=64, columns=64, depth=64, stages=4))


@case("cuda")
def matmul_wgmma_in_turn():
    """Three blocks take eight tiles in turn."""
    tiles = Tiles(rows=64, columns=32, depth=64, stages=4, blocks=3)
    return product(128, 128, 256, tiles, transposed=(False, False), out="float32")


@case("cuda")
def matmul_wgmma_wide_stores():
    """Four threads exchange pairs of results, so that each stores eight."""
    return product(128, 128, 128, Tiles(rows=64, columns=128, depth=64))


@case("cuda")
def matmul_wgmma_tf32():
    """The second operand lies across the reduction, and is transposed where it is copied."""
    tiles = Tiles(rows=64, columns=64, depth=32, stages=2)
    return product(128, 128, 128, tiles, dtype="tf32", out="float32")


@case("cuda")
def matmul_wgmma_passed():
    """The first operand lies across the reduction; threads pass what they read of it."""
    tiles = Tiles(rows=64, columns=64, depth=32, stages=4)
    options = {"dtype": "tf32", "transposed": (True, False), "out": "float32", "passed": True}
    return product(128, 128, 128, tiles, **options)
