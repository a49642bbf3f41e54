"""Matrix multiplication by ``wgmma`` whose operands the bulk copy engine brings, box by box.

In `gemm_wgmma` 128 threads of a block copy 16 bytes at a time, all the while. Here one thread
tells Hopper's copy engine which box of a matrix to bring; the engine places rows as the
instruction wants them, and a barrier counts the bytes that arrive. What follows from it:

- The engine is told of a matrix by a tensor map. `tensor_map` says how one that is a constant of
  the program serves plain pointers. Rows of a and b must begin at multiples of 16 bytes.
- Where a shape has many tiles, blocks can walk over them: the copies of the next begin while one
  is being written. Several teams of warpgroups take tiles in turn, and one writes while another
  multiplies: where sums are short, filling and draining tiles takes half of the time otherwise.
- Two blocks of a cluster with tiles of the same columns can copy half of b each for both
  ("multicast").
- Where a shape has too few tiles to fill the device, ``split`` blocks take a range of K each and
  write their sums as they hold them; a second kernel adds these up.
- Results of 16 bits are stored by the copy engine too, in whole cache lines.

CUTLASS has kernels of this kind under the names "persistent", "cooperative" and "ping-pong" (its
documentation, "Efficient GEMM in CUDA", of warp-specialized kernels for Hopper). The knobs are
those of `gemm_wgmma`, and mean the same for one team. ``wgmma``, the knob by which `gemm_half`
tells the families apart, says how blocks go about their tiles: see `Form`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from autotune import SourceKernel, Target, call, workspace
from autotune.errors import TemplateError

from . import common, gemm_wgmma
from .epilogue import Epilogue
from .gemm_shape import HALVES, Product, first_names, result_name
from .gemm_wgmma import ARCH, PRODUCT_REGISTERS
from .tensor_map import initializer, tensor_map

HOPPER = Target(f"cuda -arch={ARCH}")
KNOB = "wgmma"
ITEM_BYTES = 2
# Elements of a row of shared memory, of 128 bytes.
PANEL = 64
# Of a thread that begins copies; the kernel text has the same.
COPY_REGISTERS = 40
# What a multiplying thread needs beside its sums.
OTHER_REGISTERS = 40
# And where it walks over tiles.
WALK_REGISTERS = 16
# Of a block that adds up what a split wrote, four sums each.
SUM_THREADS = 256
# Of a box of results.
BOX_BYTES = 16 * 128
# Blocks that walk are as many as multiprocessors of an H100 or H200 take at a time.
MULTIPROCESSORS = 132
# Estimated cycles up to which copies of 16 bytes, which begin sooner, are faster.
SHORT_RUN = 8500
# Up to as many results, a kernel that adds up what the blocks of a split wrote is worth its time.
FEW_RESULTS = 2**20


@dataclass(frozen=True)
class Form:
    """How blocks go about their tiles.

    Attributes:
        teams: of warpgroups, that take tiles in turn; 0: a block has one tile.
        share: blocks of a cluster that copy b together.
    """

    teams: int
    share: int

    @classmethod
    def of(cls, knob: int) -> Form:
        """Return the form of a value of the knob."""
        return cls(knob // 2 - 1, knob % 2 + 1)

    @property
    def knob(self) -> int:
        """The value of the knob."""
        return 2 * (self.teams + 1) + self.share - 1


FORMS = tuple(Form(teams, share) for teams in range(3) for share in (1, 2))


class BulkTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice, self.form = shape, choice, Form.of(c[KNOB])
        self.teams = common.larger(self.form.teams, 1)
        self.team_groups = common.larger(c["warps_m"] // 4, 1)
        self.groups = self.team_groups * self.teams
        self.threads = 128 * (self.groups + 1)
        self.tile_m, self.tile_n = c["warps_m"] * c["frags_m"] * 16, c["frags_n"] * 8
        self.all_chunks = common.ceil_div(shape.k, c["chunk"])
        self.chunks = common.ceil_div(self.all_chunks, c["split"])
        self.slot_bytes = ITEM_BYTES * c["chunk"] * (self.tile_m + self.tile_n)
        # Boxes of 64 columns, of which each warp has two.
        whole = shape.n % 8 == 0 or shape.rest == Epilogue()
        self.boxes = (c["split"] == 1) & whole & (self.tile_n % PANEL == 0)
        # Two barriers a slot, one a team, and room to begin the ring at a multiple of 1024.
        self.shared_bytes = (
            c["stages"] * self.slot_bytes + 16 * c["stages"] + 8 * self.teams + 1024
            + self.boxes * (self.form.teams > 0) * self.groups * 8 * BOX_BYTES
        )  # fmt: skip
        # Blocks that share columns come in whole clusters, of which some may have no rows.
        clusters = common.ceil_div(common.ceil_div(shape.m, self.tile_m), self.form.share)
        self.blocks = (clusters * self.form.share, common.ceil_div(shape.n, self.tile_n))
        self.tiles = shape.batch * self.blocks[0] * self.blocks[1]
        # Sums that the blocks of a split write.
        self.part_size = self.tiles * self.tile_m * self.tile_n

    def fits(self, resident: int, target: Target) -> bool:
        """Return whether ``resident`` blocks fit a multiprocessor's registers and memory."""
        c, limits = self.choice, target.limits
        entry = limits.registers // (self.threads * resident) // 8 * 8
        for_sums = (entry * (self.groups + 1) - COPY_REGISTERS) // self.groups
        needed = c["frags_m"] * c["frags_n"] * 4 + OTHER_REGISTERS
        needed += WALK_REGISTERS * (self.form.teams > 0)
        return (
            (self.threads <= limits.threads_per_block)
            & (c["frags_n"] * 4 + PRODUCT_REGISTERS <= entry)
            & (needed <= for_sums)
            & (needed <= 240)
            & (resident * (self.shared_bytes + 1024) <= limits.shared_bytes_optin + 1024)
        )

    def resident(self, target: Target) -> int:
        """Return how many blocks a multiprocessor has at a time: one, or two that fit."""
        return 2 if self.fits(2, target) else 1

    def grid(self, target: Target) -> int:
        """Return how many blocks there are, of each range of a split."""
        if self.form.teams == 0:
            return self.tiles
        return min(self.tiles, MULTIPROCESSORS * self.resident(target))

    def maps(self, asked: Product) -> dict[str, str]:
        """Return the maps of a, b and c, of which those of a and b may be padded copies."""
        s, c = self.shape, self.choice
        a = (s.k, s.m, c["chunk"]) if s.transpose_a else (s.m, s.k, self.tile_m)
        share = self.tile_n // self.form.share
        b = (s.n, s.k, share) if s.transpose_b else (s.k, s.n, c["chunk"])
        sides = {"A_MAP": a, "B_MAP": b}
        if self.boxes and asked.n % 8 == 0:
            sides["C_MAP"] = (asked.m, asked.n, 16)
        return {
            name: initializer(tensor_map(rows, columns, s.dtype, box_rows))
            for name, (rows, columns, box_rows) in sides.items()
        }


def refusal(shape: Product) -> str | None:
    """Return why these copies cannot serve a shape, or None."""
    rules = [
        (shape.dtype not in HALVES, "operands must be 16-bit floats"),
        (shape.gathers, "operands must be matrices"),
    ]
    return common.first_broken(rules) or gemm_wgmma.refusal(shape)


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    few = shape.batch * shape.m * shape.n <= FEW_RESULTS
    return {
        KNOB: [form.knob for form in FORMS],
        "warps_m": [4, 8],
        "warps_n": [1],
        "frags_m": [1, 2],
        "frags_n": [8, 16, 24, 32],
        "chunk": [64, 128],
        "stages": [2, 3, 4, 5, 6, 8],
        "split": common.up_to(max(1, shape.k // 128), (1, 2, 4, 8)) if few else [1],
        "band": [1, 4, 8, 16],
    }


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    tiling, limits, c = BulkTiling(shape, choice), target.limits, choice
    least = 8 if shape.transpose_b else PANEL
    form, offered = tiling.form, refusal(shape) is None and gemm_wgmma.offered(shape, target)
    rules = [
        (not offered, "no wgmma by boxes"),
        (tiling.shared_bytes > limits.shared_bytes_optin, "too much shared memory"),
        (tiling.fits(1, target) == 0, "too many registers"),
        (tiling.tile_m >= 2 * max(shape.m, 64), "rows beyond the output"),
        (tiling.tile_n >= 2 * max(shape.n, 64), "columns beyond the output"),
        (
            (form.teams == 0) & (c["stages"] > common.larger(tiling.chunks + 1, 2)),
            "stages beyond the chunks",
        ),
        *_of_k(shape, tiling),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.blocks[0]), "a band beyond the output"),
        ((c["split"] > 1) & (form.teams > 0), "a split that walks"),
        (
            (form.teams > 0)
            & (tiling.tiles <= MULTIPROCESSORS * common.larger(form.teams - 1, 1)),
            "a team without a tile",
        ),
        ((form.share > 1) & (c["band"] % form.share > 0), "a band of no whole clusters"),
        ((form.share > 1) & (tiling.tile_m >= shape.m), "a block without rows"),
        ((form.share > 1) & (tiling.tile_n % (least * form.share) > 0), "a share of a panel"),
        (tiling.tiles > 2**31 - 1, "too many blocks"),
    ]
    return common.first_broken(rules)


def _of_k(shape: Product, tiling: BulkTiling) -> list[tuple[bool, str]]:
    """Return the rules of ranges of K: no box may lie outside of a matrix as a whole."""
    c = tiling.choice
    beyond = c["chunk"] * tiling.all_chunks - shape.k
    return [
        (beyond >= PANEL, "a box beyond the reduction"),
        (
            (c["split"] > 1) & (tiling.chunks * (c["split"] - 1) >= tiling.all_chunks),
            "an empty range",
        ),
    ]


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: the slower of products and copies, and what goes with them.

    The constants were read off kernels with clocks in them on an H200: 1024, 2048, 4096 and
    512x512x8192, and 197x3072x768 with a GELU.
    """
    tiling, c = BulkTiling(shape, choice), choice
    sms = target.limits.sm_count if target.limits.sm_count > 1 else MULTIPROCESSORS
    resident, teams = tiling.resident(target), tiling.form.teams
    steps = common.ceil_div(tiling.tiles * c["split"], sms * resident)
    together = min(resident, common.ceil_div(tiling.tiles * c["split"], sms))
    work = tiling.chunks * _chunk_cycles(tiling, together)
    # Until the first chunk is there, and from the last product on; blocks of a cluster meet first.
    begin = 2400 + 500 * (tiling.form.share - 1)
    results = tiling.tile_m * tiling.tile_n
    end = 300 + 0.085 * results * together
    if shape.rest != Epilogue():
        instructions = 8 + 16 * (shape.rest.activation in ("gelu", "silu"))
        # The warps of one group cannot keep schedulers busy.
        end += results * instructions / (64 * tiling.team_groups) * together
    # A kernel that adds up is begun, reads its parts from the L2 cache and writes.
    adding = 4000 + 4 * (c["split"] + 1) * tiling.part_size / (20 * sms) if c["split"] > 1 else 0
    if teams == 0:
        cycles = steps * (begin + work + end) + adding
    elif teams == 1:
        cycles = begin + steps * (work + end)
    else:  # a team writes while another multiplies
        cycles = begin + steps * max(work, (work + end) / teams) + end
    # What no kernel is faster than: results go to memory, and all copies through the L2 cache.
    copied = tiling.tiles * tiling.all_chunks * tiling.slot_bytes
    written = 2 * shape.batch * shape.m * shape.n
    return max(cycles, written / 2000 + copied / 8000) + cycles / 10


def wins(shape: Product, choice: Mapping[str, int], target: Target) -> bool:
    """Return whether a choice is known to beat `gemm_wgmma` where nothing was tuned.

    On an H200 it did for 24 of 26 plain products; the others are over before the copy engine has
    begun (768), or have few, narrow tiles (512x512x2048). What follows a sum is faster there. Few
    rows, and results whose rows vectors cannot write, were not measured.
    """
    followed = shape.rest != Epilogue()
    if followed or shape.m < PANEL or shape.n % 8 > 0 or violation(shape, choice, target):
        return False
    walks, split = Form.of(choice[KNOB]).teams > 0, choice["split"] > 1
    wide = choice["frags_n"] * 8 > PANEL
    return walks or split or (wide and estimate(shape, choice, target) > SHORT_RUN)


def _chunk_cycles(tiling: BulkTiling, together: int) -> float:
    """Return the cycles of a chunk where ``together`` blocks are at work on a multiprocessor."""
    # Products of 64 x 8 x 16 take 4 cycles, of 64 columns more for what the operands come to. Of
    # the L2 cache, 90 bytes a cycle reach a multiprocessor.
    c = tiling.choice
    products = tiling.team_groups * c["frags_m"] * c["frags_n"] * c["chunk"] / 4
    products *= 1.4 if c["frags_n"] == 8 else 1.05
    copies = tiling.slot_bytes / 90
    # Where both take long they are in each other's way.
    cycles: float = (products**4 + copies**4) ** 0.25 * together
    # A slot is free in the middle of the next chunk, and full again some time later.
    waiting = max(0.0, 900 + copies - (c["stages"] - 1.5) * cycles) / c["stages"]
    if tiling.chunks > c["stages"]:
        cycles += waiting
    # Two teams wait for barriers by turns.
    return cycles + 15 * (tiling.form.teams < 2)


def default_choice(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate.

    Sharing copies, and walking where something follows a sum, have not been faster; of choices
    that are as good the first has the deepest ring, and tall tiles.
    """
    follows, options = shape.rest != Epilogue(), candidates(shape)
    options |= {
        KNOB: [form.knob for form in FORMS if form.share == 1 and form.teams <= 2 * (not follows)],
        "frags_m": [2, 1],
        "stages": options["stages"][::-1],
        "band": [8, 1],
    }
    every = (dict(zip(options, values, strict=True)) for values in product(*options.values()))
    first = {name: values[0] for name, values in options.items()}
    valid = (choice for choice in every if violation(shape, choice, target) is None)
    return min(valid, key=partial(estimate, shape, target=target), default=first)


def kernel(
    shape: Product, choice: Mapping[str, int], plain: Product | None = None
) -> SourceKernel:
    """Return the kernel of a choice of knobs, and of a split the one that adds up.

    Args:
        plain: what is asked for, where ``shape`` is that of padded copies of a and b: the kernel
            takes its arguments and writes its result.

    Raises:
        TemplateError: these copies cannot serve the shape, or a box of this choice would lie
            outside of its matrix; the message says why.
    """
    tiling, c, asked = BulkTiling(shape, choice), choice, plain or shape
    if reason := refusal(shape) or common.first_broken(_of_k(shape, tiling)):
        raise TemplateError(f"gemm of {shape.dtype} by boxes: {reason}, got {shape}")
    defines = common.defines(
        m=shape.m, n=shape.n, k=shape.k, c_m=asked.m, c_n=asked.n, threads=tiling.threads,
        resident=tiling.resident(HOPPER), cluster=0, tf32=0, bfloat16=shape.dtype == "bfloat16",
        groups=tiling.team_groups, frags_m=c["frags_m"], tile_n=tiling.tile_n, chunk=c["chunk"],
        stages=c["stages"], split=c["split"], band=c["band"], teams=tiling.form.teams,
        share=tiling.form.share, element=1 + HALVES.index(shape.dtype),
        boxes=tiling.boxes and (asked.n % 8 == 0 or asked.rest == Epilogue()),
    )  # fmt: skip
    a, b, *rest = first_names(asked)
    result, split = result_name(asked), c["split"] > 1
    grid = (tiling.grid(HOPPER), 1, c["split"])
    written = "parts" if split else result
    calls = [call("gemm_bulk", [a, b, *rest, written], grid, tiling.threads, tiling.shared_bytes)]
    if split:
        blocks = tiling.part_size // (4 * SUM_THREADS)
        calls.append(call("gemm_bulk_sums", ["parts", *rest, result], blocks, SUM_THREADS))
    texts = [
        "elements.h", "epilogue.h", "operands.h", "mma.h", "pairs.h", "barriers.h", "early.h",
        "wgmma.h", "bulk.h", "gemm_bulk.h", "gemm_bulk_copies.h", "gemm_bulk_results.h",
        "gemm_bulk.cu", "gemm_bulk_sums.cu",
    ]  # fmt: skip
    source = common.cuda_kernel(
        asked, texts, {**defines, **shape.operands(), **tiling.maps(asked)}, calls,
        flags=[f"-arch={ARCH}"],
    )  # fmt: skip
    if not split:
        return source
    return replace(
        source, workspace=[workspace("parts", (c["split"] * tiling.part_size,), "float32")]
    )
