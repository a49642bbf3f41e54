"""The space of choices of products by TMA: the values of each knob for a shape."""

from __future__ import annotations

from .. import common
from ..convolutions.conv2d_nhwc import AcrossGroups
from ..convolutions.image_planes import plane_of
from .gemm_mma import depth
from .gemm_shape import HALVES, TF32, Product
from .gemm_tma_form import FORMS, KNOB, MORE_CLUSTERS, Form
from .gemm_tma_tiling import CLUSTERED, PANEL, fragments

# Results of a tile, at most.
LARGEST_TILE = 128 * 256
# Results up to which split-K is worth its second kernel, which reduces partial sums; and up to
# which more ranges of K than eight are, as there are few tiles.
FEW_RESULTS, FEW_TILES = 2**20, 2**16
# Ranges of K of such few tiles: with one to twelve tiles, as many as fill 132 multiprocessors.
MANY_RANGES = (1, 2, 4, 8, 11, 16, 22, 26, 32, 33, 44, 66)


def _is_offered(form: Form, shape: Product) -> bool:
    """Return whether a form is in the space of a shape; the rules say with which tiles."""
    results = shape.batch * shape.m * shape.n
    if plane_of(shape):  # blocks of several rows of tiles share pixels only of matrices
        fits = results <= FEW_RESULTS or not form.cluster_reduce
        shares = form.cluster_m == 1 or not shape.gathers
        return form.swapped > 0 and fits and shares
    if shape.dtype == "int8" or shape.gathers:
        alone = shape.dtype == TF32 and form.cluster_m == 1
        suits = alone if form.swapped else not _swaps(shape)
        if shape.dtype == "int8":  # what is not K-major is the left operand
            suits = form.swapped == (not shape.transpose_b)
        return form.cluster_n == 1 and not form.cluster_reduce and suits
    if form.swapped and form.cluster_reduce:
        return shape.dtype in HALVES and results <= FEW_RESULTS
    if form.knob < MORE_CLUSTERS:
        return shape.dtype in HALVES or not form.cluster_reduce
    # Few rows stream the other operand, and large clusters must all run at the same time.
    fits = results <= (FEW_RESULTS if form.cluster_reduce else CLUSTERED * LARGEST_TILE)
    pair = form.cluster_m * form.cluster_n == 2 and not form.cluster_reduce
    return shape.dtype in HALVES and min(shape.m, shape.n) > PANEL and (fits or pair)


def _swaps(shape: Product) -> bool:
    """Return whether operands have to be swapped: filters of groups as TF32 are not copied."""
    return isinstance(shape, AcrossGroups) and shape.dtype == TF32


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    results = shape.batch * shape.m * shape.n
    ranges = MANY_RANGES if results <= FEW_TILES else (1, 2, 4, 8)
    return {
        KNOB: [form.knob for form in FORMS if _is_offered(form, shape)],
        "warps_m": [4, 8, 12],
        "warps_n": [1],
        "frags_m": [1, 2],
        "frags_n": fragments(shape),
        "chunk": [32, 64] if shape.dtype == TF32 else [64, 128],
        "stages": [2, 3, 4, 5, 6, 8],
        "split": common.up_to(max(1, depth(shape) // 128), ranges)
        if results <= FEW_RESULTS
        else [1],
        "band": [1, 2, 4, 8, 16],
    }
