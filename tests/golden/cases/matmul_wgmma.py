"""A product of 16-bit floats on Hopper's tensor cores, from a ring of asynchronous copies."""

from tests.golden.case import case
from tests.lowering.warpgroup_products import Tiles, product


@case("cuda")
def matmul_wgmma():
    return product(128, 128, 256, Tiles(rows=64, columns=64, depth=64, stages=4))
