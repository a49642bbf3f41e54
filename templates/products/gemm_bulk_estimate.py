"""How long products by boxes take, roughly: which choice is best where nothing was tuned."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import Target

from .. import common
from ..epilogue import Epilogue
from .gemm_bulk_tiling import MULTIPROCESSORS, BulkTiling
from .gemm_shape import Product

# Cycles until the products of a block begin, and from their end to that of the kernel.
BEGINNING = 5000


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: the slower of products and copies, and what goes with them.

    The constants were fitted to 1010 choices for 50 shapes from 197x3072x768 to 4096 on an H200,
    the fast ones above all. Choices may be arrays of them.
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
    meeting = (form.share - 1) * 84
    # Until the first chunk is there, and from the last product on.
    writing = _writing_cycles(tiling) * together
    ends = BEGINNING + writing
    # A kernel that adds up is begun, reads its parts from the L2 cache and writes.
    adding = (split > 1) * (15 + 4 * (split + 1) * tiling.part_size / (9.9 * sms))
    # Blocks that walk begin once. Of two teams one writes while the other multiplies.
    in_turn = common.larger(work, (work + ends) / tiling.teams)
    walking = common.pick(form.teams > 1, in_turn, work + 480 + writing)
    one = common.pick(form.teams > 0, walking, work + ends)
    once = common.pick(form.teams > 1, ends, BEGINNING * (form.teams > 0))
    return meeting + steps * one + once + adding


def _writing_cycles(tiling: BulkTiling) -> float:
    """Return the cycles for what follows the sums of a block, and for writing them."""
    rest, swapped = tiling.shape.rest, tiling.form.swapped
    results = tiling.tile_m * tiling.tile_n
    # Rows of tiles that end within 32 bytes are written twice, and boxes of few rows slowly.
    each = (0.16 if tiling.integers else tiling.item / 81) + 0.02 * (
        tiling.choice["frags_n"] % 2
    ) * (1 - swapped)
    each += 0.1 * swapped * (tiling.form.teams > 0) * (32 / tiling.box_rows - 1)
    if rest != Epilogue():
        each += (8 + 8 * (rest.activation in ("gelu", "gelu_tanh", "silu"))) / 64
    # Of groups in order the others write while one still multiplies.
    cycles: float = results * each / common.pick(tiling.ordered > 0, tiling.team_groups, 1)
    return cycles


def _chunk_cycles(tiling: BulkTiling, together: int) -> float:
    """Return the cycles of a chunk where ``together`` blocks are at work on a multiprocessor."""
    # Products of 64 x 8 x 32 bytes take 4 cycles where power does not slow the device down; narrow
    # ones wait for their left operand. Of the copy engine, 71 bytes a cycle reach a
    # multiprocessor.
    c = tiling.choice
    one = common.larger(c["frags_n"] * 5.55 + 4, 32 + c["frags_n"] * 3.6)
    products = tiling.team_groups * c["frags_m"] * c["chunk"] * tiling.item / 32 * one
    # Three groups are in each other's way.
    products *= 1 + 0.04 * (tiling.team_groups > 2)
    copies = tiling.copied_bytes / 71.5
    # Where both take long they are in each other's way.
    cycles: float = (products**6 + copies**6) ** (1 / 6) * together
    # A slot is free in the middle of the next chunk, and full again some time later:
    # later where another block has to be done with it too.
    away = 1150 + 620 * (tiling.form.share - 1) + copies
    waiting = common.larger(0.0, away - (c["stages"] - 1.32) * cycles) / c["stages"]
    waiting *= tiling.chunks > c["stages"]
    return cycles + waiting + 11 + 41 * (tiling.form.share - 1)
