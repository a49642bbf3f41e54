"""Which products, and which choices of knobs, `gemm_tma` supports."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import Target

from .. import common
from ..convolutions import implicit_gemm_tma
from ..convolutions.conv2d_nhwc import AcrossGroups
from ..convolutions.image_planes import plane_of
from . import gemm_wgmma
from .gemm_mma import item_bytes
from .gemm_shape import HALVES, TF32, Product
from .gemm_tma_tiling import CLUSTERED, MULTIPROCESSORS, PANEL, TmaTiling, in_registers

# Threads of a block that reduces split-K, four sums each.
SUM_THREADS = 256
# Rows of a TMA box, at most.
LARGEST_BOX = 256

Rules = list[tuple[bool, str]]


def refusal(shape: Product) -> str | None:
    """Return why TMA cannot load the operands of a shape, or None."""
    integers = shape.dtype == "int8"
    whole = 16 if integers else 16 // item_bytes(shape)
    across_k = shape.transpose_a and not shape.transpose_b
    reasons = [
        (
            shape.dtype not in (*HALVES, TF32, "int8"),
            "operands must be 16-bit floats, floats as TF32 or 8-bit integers",
        ),
        (
            (integers or shape.dtype == TF32) and across_k,
            f"one operand of {'integers' if integers else 'floats'} must be K-major: a as [m, k], "
            "or b as [n, k] (transpose_b)",
        ),
        (
            shape.a_run % whole > 0 or shape.b_run % whole > 0,
            f"rows of both operands in memory must be multiples of {whole} elements",
        ),
    ]
    reason = implicit_gemm_tma.refusal(shape) if shape.gathers else None
    return common.first_broken(reasons) or reason


def offered(shape: Product, target: Target) -> bool:
    """Return whether a target has wgmma and TMA, and these kernels can multiply a shape."""
    return gemm_wgmma.has_wgmma(target) and refusal(shape) is None


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(rules(choice, shape, target))


def rules(choice: Mapping[str, int], shape: Product, target: Target) -> Rules:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, limits, c = TmaTiling(shape, choice), target.limits, choice
    form = tiling.form
    large = tiling.cluster_blocks > 2
    return [
        (not offered(shape, target), "no wgmma by TMA"),
        (tiling.shared_bytes > limits.shared_bytes_optin, "too much shared memory"),
        (tiling.fits(1, target) == 0, "too many registers"),
        *faults(tiling),
        (tiling.tile_m >= 2 * common.larger(tiling.m, 64), "rows beyond the output"),
        (tiling.tile_n >= 2 * common.larger(tiling.n, 64), "columns beyond the output"),
        (
            (form.persistent == 0) & (c["stages"] > common.larger(tiling.k_tiles + 1, 2)),
            "more stages than K tiles",
        ),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.blocks[0]), "a band beyond the output"),
        (
            form.persistent & (tiling.tiles <= MULTIPROCESSORS),
            "a persistent kernel with one tile for each block",
        ),
        (
            (form.cluster_m > 1) & (c["band"] % form.cluster_m > 0),
            "a band of parts of clusters",
        ),
        ((form.cluster_m > 1) & (tiling.tile_m >= tiling.m), "a block without rows"),
        ((form.cluster_n > 1) & (tiling.tile_n >= tiling.n), "a block without columns"),
        (
            large & (tiling.tiles * c["split"] > CLUSTERED),
            "more clusters than run at a time",
        ),
    ]


def faults(tiling: TmaTiling) -> Rules:
    """Return the rules without which a kernel would be wrong, or hang, on any device."""
    c, form = tiling.choice, tiling.form
    split, pipeline_bytes = c["split"] > 1, c["stages"] * tiling.stage_bytes
    return [
        (tiling.tile_m > LARGEST_BOX, "a TMA box of too many rows"),
        *_of_k(tiling),
        (split & form.persistent, "split-K in a persistent kernel"),
        (
            (form.persistent == 0) & (not tiling.floats) & (tiling.result_bytes > pipeline_bytes),
            "results beyond the pipeline's buffers",
        ),
        *_of_multicast(tiling),
        *_of_operands(tiling),
        *_of_cluster_reduce(tiling),
        (
            split
            & (form.cluster_reduce == 0)
            & (tiling.tile_m * tiling.tile_n % (4 * SUM_THREADS) > 0),
            "sums that are not a multiple of the reducing blocks",
        ),
        (tiling.tiles > 2**31 - 1, "too many blocks"),
    ]


def _of_multicast(tiling: TmaTiling) -> Rules:
    """Return the rules of clusters whose blocks load parts of an operand for each other."""
    form, shape = tiling.form, tiling.shape
    # Large clusters load uneven numbers of panels in turn. Pairs gained nothing, and other types
    # than 16-bit floats were not timed.
    pair = form.cluster_m * form.cluster_n == 2
    even = pair | (shape.dtype not in HALVES) | shape.gathers
    rows = (tiling.left_mn_major > 0) & (tiling.tile_m % (PANEL * form.cluster_n) > 0)
    columns = tiling.tile_n % (tiling.right_unit * form.cluster_m) > 0
    return [
        (tiling.cluster_blocks > 8, "a cluster of more than eight blocks"),
        (even & (form.cluster_n > 1) & rows, "multicast of part of a panel"),
        (even & (form.cluster_m > 1) & columns, "multicast of part of a panel"),
    ]


def _of_cluster_reduce(tiling: TmaTiling) -> Rules:
    """Return the rules of split-K that is reduced within a cluster."""
    split, reduces = tiling.choice["split"], tiling.form.cluster_reduce > 0
    pipeline_bytes = tiling.choice["stages"] * tiling.stage_bytes
    return [
        (reduces & (split == 1), "a cluster reduction without split-K"),
        (reduces & (tiling.tile_n % (8 * split) > 0), "a reduction of parts of fragments"),
        (reduces & (tiling.reduce_bytes > pipeline_bytes), "sums beyond the pipeline's buffers"),
        (
            reduces & (tiling.integers or tiling.floats),
            "a cluster reduction not of halves",
        ),
        (
            reduces & (not in_registers(tiling.shape)),
            "more than a bias, residual or factor, and an activation, after a cluster reduction",
        ),
    ]


def _of_operands(tiling: TmaTiling) -> Rules:
    """Return the rules of the layouts of operands, and of swapped ones."""
    shape, swapped = tiling.shape, tiling.form.swapped > 0
    more = not in_registers(shape)
    halves = swapped & (shape.dtype in HALVES)
    multicast = tiling.form.cluster_m > 1
    return [
        *(_of_groups(tiling, shape) if isinstance(shape, AcrossGroups) else ()),
        *(_of_planes(tiling) if plane_of(shape) else ()),
        (
            (tiling.floats or tiling.integers) & (tiling.right_mn_major > 0),
            "an MN-major right operand of floats or integers",
        ),
        (
            tiling.integers & (tiling.left_in_registers > 0) & (tiling.tile_m % (2 * PANEL) > 0),
            "half a panel of integers",
        ),
        (
            tiling.integers & swapped & (tiling.left_mn_major == 0),
            "swapped operands of integers that are both K-major",
        ),
        (
            halves & shape.gathers & (plane_of(shape) == 0),
            "an implicit right operand of 16-bit floats",
        ),
        (swapped & shape.gathers & multicast, "multicast of an implicit right operand"),
        (
            halves & more,
            "more than a bias, residual or factor, and an activation, after swapped operands",
        ),
        (
            halves & (tiling.choice["split"] > 1) & (tiling.form.cluster_reduce == 0),
            "split-K of swapped operands by two kernels",
        ),
    ]


def _of_planes(tiling: TmaTiling) -> Rules:
    """Return the rules of results that are written as images NCHW, from a tile's strips."""
    form = tiling.form
    return [
        (form.swapped == 0, "planes of operands that are not swapped"),
        (
            form.persistent & (plane_of(tiling.shape) % 2 > 0),
            "odd planes of a persistent kernel, which stages few pixels at a time",
        ),
        (tiling.smem_epilogue == 0, "planes that are not staged"),
    ]


def _of_groups(tiling: TmaTiling, shape: AcrossGroups) -> Rules:
    """Return the rules of tiles: their columns are those of one group, or of all joined ones."""
    # With swapped operands the rows of a tile are filters.
    tile = common.pick(tiling.form.swapped, tiling.tile_m, tiling.tile_n)
    columns = tiling.joined * shape.filters
    return [
        (columns % tile > 0, "columns of several groups"),
        (
            (tiling.joined > 1) & (tile < columns),
            "columns of some of the groups that are joined",
        ),
    ]


def _of_k(tiling: TmaTiling) -> Rules:
    """Return the rules of ranges of K: no box may be wholly out of bounds."""
    c = tiling.choice
    beyond = c["chunk"] * tiling.all_k_tiles - tiling.k
    return [
        (beyond >= tiling.panel, "a TMA box beyond K"),
        (
            (c["split"] > 1) & (tiling.k_tiles * (c["split"] - 1) >= tiling.all_k_tiles),
            "an empty range",
        ),
    ]
