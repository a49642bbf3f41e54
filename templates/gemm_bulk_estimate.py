"""How long products by boxes take, roughly: which choice is best where nothing was tuned."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import Target

from . import common
from .epilogue import Epilogue
from .gemm_bulk_tiling import MULTIPROCESSORS, BulkTiling
from .gemm_shape import Product


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: the slower of products and copies, and what goes with them.

    The constants were fitted to 771 choices for 20 shapes from 77x3072x768 to 4096 on an H200, the
    fast ones above all. Choices may be arrays of them.
    """
    tiling, c = BulkTiling(shape, choice), choice
    form, split = tiling.form, c["split"]
    sms = target.limits.sm_count if target.limits.sm_count > 1 else MULTIPROCESSORS
    resident = tiling.resident(target)
    blocks = tiling.tiles * split
    steps = common.ceil_div(blocks, sms * resident)
    together = common.smaller(resident, common.ceil_div(blocks, sms))
    work = tiling.chunks * _chunk_cycles(tiling, together)
    # Blocks of a cluster meet first, and wait for each other in every chunk.
    meeting = (form.share - 1) * 400
    # Until the first chunk is there, and from the last product on.
    ends = 2900 + _following_cycles(shape, tiling) * together
    # Rows of tiles that end within 32 bytes are written twice.
    ends += 0.15 * tiling.tile_m * tiling.tile_n * (c["frags_n"] % 2) * (1 - form.swapped)
    # A kernel that adds up is begun, reads its parts from the L2 cache and writes.
    adding = (split > 1) * (2800 + 4 * (split + 1) * tiling.part_size / (20 * sms))
    # Of two teams one writes while the other multiplies.
    in_turn = common.larger(work, (work + ends) / tiling.teams)
    one = common.pick(form.teams > 1, in_turn, work + ends)
    return meeting + steps * one + ends * (form.teams > 1) + adding


def _following_cycles(shape: Product, tiling: BulkTiling) -> float:
    """Return the cycles of what follows the sums of a block."""
    rest = shape.rest
    if rest == Epilogue():
        return 0.0
    instructions = 8 + 16 * (rest.activation in ("gelu", "gelu_tanh", "silu"))
    # The warps of one group cannot keep schedulers busy.
    return tiling.tile_m * tiling.tile_n * instructions / (64 * tiling.team_groups)


def _chunk_cycles(tiling: BulkTiling, together: int) -> float:
    """Return the cycles of a chunk where ``together`` blocks are at work on a multiprocessor."""
    # Products of 64 x 8 x 16 take 4 cycles where power does not slow the device down; narrow ones
    # wait for their left operand. Of the copy engine, 70 bytes a cycle reach a multiprocessor.
    c = tiling.choice
    one = common.larger(c["frags_n"] * 5.4, 28 + c["frags_n"] * 3.5)
    products = tiling.team_groups * c["frags_m"] * c["chunk"] / 16 * one
    copies = tiling.copied_bytes / 70
    # Where both take long they are in each other's way.
    cycles: float = (products**8 + copies**8) ** 0.125 * together
    # A slot is free in the middle of the next chunk, and full again some time later.
    waiting = common.larger(0.0, 1160 + copies - (c["stages"] - 1.5) * cycles) / c["stages"]
    waiting *= tiling.chunks > c["stages"]
    return cycles + waiting + 15 + 40 * (tiling.form.share - 1)
