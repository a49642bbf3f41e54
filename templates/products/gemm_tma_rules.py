"""Which products, and which choices of knobs, `gemm_tma` supports."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import Target

from .. import common
from ..convolutions import implicit_gemm_tma
from . import gemm_wgmma
from .gemm_mma import item_bytes
from .gemm_shape import HALVES, TF32, Product
from .gemm_tma_tiling import CLUSTERED, MULTIPROCESSORS, PANEL, TmaTiling, in_place

# Of a block that adds up what a split wrote, four sums each.
SUM_THREADS = 256
# Rows of a box of TMA, at most.
LARGEST_BOX = 256

Rules = list[tuple[bool, str]]


def refusal(shape: Product) -> str | None:
    """Return why these copies cannot serve a shape, or None."""
    integers, whole = shape.dtype == "int8", 16 // item_bytes(shape)
    along_k = shape.transpose_b and not shape.transpose_a
    across_k = shape.transpose_a and not shape.transpose_b
    reasons = [
        (
            shape.dtype not in (*HALVES, TF32, "int8"),
            "operands must be 16-bit floats, floats as TF32 or 8-bit integers",
        ),
        (
            integers and not (along_k and shape.k % 16 == 0),
            "integers must stand along K: a as [m, k] and b as [n, k], with a k that 16 divides",
        ),
        (
            shape.dtype == TF32 and across_k,
            "floats must stand along K in one operand: a as [m, k], or b as [n, k] (transpose_b)",
        ),
        (
            shape.a_run % whole > 0 or shape.b_run % whole > 0,
            f"rows of both operands in memory must be multiples of {whole} elements",
        ),
    ]
    reason = implicit_gemm_tma.refusal(shape) if shape.gathers else None
    return common.first_broken(reasons) or reason


def offered(shape: Product, target: Target) -> bool:
    """Return whether a target has what these kernels are of, and they can multiply a shape."""
    return gemm_wgmma.has_wgmma(target) and refusal(shape) is None


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(rules(choice, shape, target))


def rules(choice: Mapping[str, int], shape: Product, target: Target) -> Rules:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, limits, c = TmaTiling(shape, choice), target.limits, choice
    form = tiling.form
    large = (form.beside > 1) | ((form.joins > 0) & (c["split"] > 2))
    return [
        (not offered(shape, target), "no wgmma by boxes"),
        (tiling.shared_bytes > limits.shared_bytes_optin, "too much shared memory"),
        (tiling.fits(1, target) == 0, "too many registers"),
        *faults(tiling),
        (tiling.tile_m >= 2 * common.larger(tiling.m, 64), "rows beyond the output"),
        (tiling.tile_n >= 2 * common.larger(tiling.n, 64), "columns beyond the output"),
        (
            (form.teams == 0) & (c["stages"] > common.larger(tiling.chunks + 1, 2)),
            "stages beyond the chunks",
        ),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.blocks[0]), "a band beyond the output"),
        (
            (form.teams > 0)
            & (tiling.tiles <= MULTIPROCESSORS * common.larger(form.teams - 1, 1)),
            "a team without a tile",
        ),
        ((form.share > 1) & (c["band"] % form.share > 0), "a band of no whole clusters"),
        ((form.share > 1) & (tiling.tile_m >= tiling.m), "a block without rows"),
        ((form.beside > 1) & (tiling.tile_n >= tiling.n), "a block without columns"),
        (
            large & (tiling.tiles * c["split"] > CLUSTERED),
            "more clusters than are at work at a time",
        ),
    ]


def faults(tiling: TmaTiling) -> Rules:
    """Return the rules without which a kernel would be wrong, or hang, on any device."""
    c, form = tiling.choice, tiling.form
    split, ring = c["split"] > 1, c["stages"] * tiling.slot_bytes
    return [
        (tiling.tile_m > LARGEST_BOX, "a box of too many rows"),
        *_of_k(tiling),
        (split & (form.teams > 0), "a split that walks"),
        (
            (form.teams == 0) & (not tiling.floats) & (tiling.result_bytes > ring),
            "results beyond the ring",
        ),
        *_of_shares(tiling),
        *_of_operands(tiling),
        *_of_joined(tiling),
        (
            split & (form.joins == 0) & (tiling.tile_m * tiling.tile_n % (4 * SUM_THREADS) > 0),
            "sums of no whole blocks",
        ),
        (tiling.tiles > 2**31 - 1, "too many blocks"),
    ]


def _of_shares(tiling: TmaTiling) -> Rules:
    """Return the rules of blocks of a cluster that copy parts of an operand for each other."""
    form = tiling.form
    rows = (tiling.left_across > 0) & (tiling.tile_m % (PANEL * form.beside) > 0)
    columns = tiling.tile_n % (tiling.least * form.share) > 0
    return [
        ((form.beside > 1) & rows, "a share of a panel"),
        ((form.share > 1) & columns, "a share of a panel"),
    ]


def _of_joined(tiling: TmaTiling) -> Rules:
    """Return the rules of clusters whose blocks add up their ranges of K."""
    split, joins = tiling.choice["split"], tiling.form.joins > 0
    ring = tiling.choice["stages"] * tiling.slot_bytes
    return [
        (joins & (split == 1), "no ranges to join"),
        (joins & (tiling.tile_n % (8 * split) > 0), "a share of no whole fragments"),
        (joins & (tiling.joined_bytes > ring), "sums beyond the ring"),
        (joins & (tiling.integers or tiling.floats), "joined sums of integers or floats"),
        (
            joins & (not in_place(tiling.shape.epilogue)),
            "more than a bias or a factor, and an activation, after joined ranges",
        ),
    ]


def _of_operands(tiling: TmaTiling) -> Rules:
    """Return the rules of how operands stand, and of rows of tiles that are columns of c."""
    shape, swapped = tiling.shape, tiling.form.swapped > 0
    more = not in_place(shape.epilogue)
    halves = swapped & (not tiling.floats)
    shares = tiling.form.share > 1
    return [
        (tiling.floats & (tiling.across > 0), "floats of the right operand across K"),
        (swapped & tiling.integers, "swapped operands of integers"),
        (halves & shape.gathers, "16-bit windows as the right operand"),
        (swapped & shape.gathers & shares, "windows as the right operand, that blocks share"),
        (
            halves & more,
            "more than a bias or a factor, and an activation, after swapped operands",
        ),
        (halves & (tiling.choice["split"] > 1), "a split of swapped operands"),
    ]


def _of_k(tiling: TmaTiling) -> Rules:
    """Return the rules of ranges of K: no box may lie outside of a matrix as a whole."""
    c = tiling.choice
    beyond = c["chunk"] * tiling.all_chunks - tiling.k
    return [
        (beyond >= tiling.panel, "a box beyond the reduction"),
        (
            (c["split"] > 1) & (tiling.chunks * (c["split"] - 1) >= tiling.all_chunks),
            "an empty range",
        ),
    ]
