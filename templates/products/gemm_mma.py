"""Products on tensor cores by ``mma.sync``: 16-bit floats with sums in float32, int8 in int32.

Warps have tiles of fragments (PTX ISA, "Warp-level matrix instructions"), loaded by ``ldmatrix``
from a multistage pipeline of K tiles in shared memory, as in CUTLASS ("Efficient GEMM in CUDA").

Floats are multiplied as TF32 where that is asked for (type ``"tf32"``): they are rounded to 11
bits when they are loaded from shared memory, one in the 32 bits of two 16-bit floats. ``ldmatrix``
cannot transpose them, so operands that are not K-major are loaded word by word.

Two 8-bit integers occupy the 16 bits of a float: their instruction has twice the depth, and is fed
by the same ``ldmatrix``, where neighbours in memory are neighbours along K. Of operands that are
stored across K (a as [k, m], b as [k, n]) it loads pairs of rows or columns, which are sorted in
registers (``mma_int8_across.h``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import common
from .gemm_shape import HALVES, TF32, Product, first_names, result_name

# Types of operands.
DTYPES = (*HALVES, TF32, "int8")
# Of a thread, as the instruction set encodes them.
MOST_REGISTERS = 255
# Cycles that a scheduler needs for a copy narrower than 16 bytes, and for a gathered one; a warp
# that is alone needs twice as many. They fit 50 times of 28 convolutions as TF32 on an H200.
COPY_CYCLES, GATHER_CYCLES = 12, 40
# Cycles of a multiprocessor for each block of a gathered product: of 4 channels by 16 filters of
# 3x1 on eight images of 136x136 tiles of 64, 128, 256 and 512 rows took 12, 7.4, 5.0 and 4.0 us on
# an H200, in blocks of any number of warps.
GATHERING_BLOCK = 750
# Cycles of products as TF32, without gathering: of a scheduler for a product, for a word of an
# operand, which is rounded, of one along K, which ``ldmatrix`` loads, in parts of that, and for a
# copy; of a warp alone for a step along K more; of a K tile, at least of the stages together, and
# of a kernel and of the one that adds partial sums; and bytes in a cycle of copies to a
# multiprocessor, and from memory. They fit 58 choices of nine products on an H200 with an error of
# 16%; before, which knew neither words nor latencies, estimates were 1.4 to 7 times too low.
PRODUCT, WORD, ALONG_K, COPY, STEP, K_TILE, LATENCY = 10.3, 3.9, 0.8, 6, 55, 100, 900
FLOATS_START, ADDING, COPIED_BYTES, FAR_BYTES = 2030, 2380, 23, 2400
# Bytes of operands beyond which they are read from memory.
NEAR_BYTES = 30_000_000
# Untuned, the copies of a K tile that are narrower than 16 bytes, counting gathered ones twice.
MOST_COPIES = 48
# Results from which on even rows of floats that are no whole sectors are written in strips: of
# 6x28x48 as TF32 an H200 took 1.83 us so, and 1.63 without, of 202 filters on 128 pixels 3.97 and
# 4.11.
MANY_EVEN = 2**14
# Shared memory of a warp for 16 rows of 32 floats, each row padded by 32 bytes.
FLOAT_STRIP_BYTES = 16 * (4 * 32 + 32)


def depth(shape: Product) -> int:
    """Return the items along K: floats, or pairs of 8-bit integers."""
    return common.ceil_div(shape.k, 2) if shape.dtype == "int8" else shape.k


def item_bytes(shape: Product) -> int:
    """Return the bytes of an item."""
    return 4 if shape.dtype == TF32 else 2


class MmaTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c, size = choice, item_bytes(shape)
        self.threads = 32 * c["warps_m"] * c["warps_n"]
        self.tile_m = c["warps_m"] * c["frags_m"] * 16
        self.tile_n = c["warps_n"] * c["frags_n"] * 8
        # A multiple of 8 keeps the ranges of split-K aligned for 16-byte copies.
        self.per_split = 8 * common.ceil_div(common.ceil_div(depth(shape), c["split"]), 8)
        self.k_tiles = common.ceil_div(self.per_split, c["chunk"])
        integers = shape.dtype == "int8"
        staged = _staged(self.tile_m, c["chunk"], shape.transpose_a, size, integers)
        staged += _staged(self.tile_n, c["chunk"], not shape.transpose_b, size, integers)
        self.shared_bytes = size * c["stages"] * staged
        self.blocks = (
            common.ceil_div(shape.m, self.tile_m),
            common.ceil_div(shape.n, self.tile_n),
        )
        sums = 4 * c["frags_m"] * c["frags_n"]
        self.registers = sums + 2 * (4 * c["frags_m"] + 2 * c["frags_n"]) + 32


def _staged(tile: int, chunk: int, along_tile: bool, size: int, integers: bool) -> int:
    """Return the items of one staged operand, whose rows are padded."""
    if not along_tile:
        return tile * (chunk + 16 // size)
    return chunk * (tile + 16 if integers else tile + 8)


def reads(shape: Product) -> bool:
    """Return whether operands can be copied by words of 4 bytes as they are stored."""
    whole = {"int8": 4, **dict.fromkeys(HALVES, 2)}.get(shape.dtype, 1)
    return shape.a_run % whole == 0 and shape.b_run % whole == 0


def copied_words(shape: Product, tiling: MmaTiling, choice: Mapping[str, int]) -> tuple[int, int]:
    """Return how many words of 4 bytes of a and of b a thread copies together."""
    word, narrow = 4 // item_bytes(shape), 2 if shape.dtype == "int8" else 1
    along_k = (choice["chunk"] // word, tiling.per_split // word)
    a_along, b_along = () if shape.transpose_a else along_k, along_k if shape.transpose_b else ()
    return (
        common.widest(shape.a_run // narrow // word, *a_along),
        common.widest(shape.b_run // narrow // word, *b_along),
    )


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    longest = 1 if shape.dtype == "int8" else shape.k // 64
    return {
        "warps_m": [1, 2, 4],
        "warps_n": [1, 2, 4],
        "frags_m": [1, 2, 4, 8],
        "frags_n": [2, 4, 8, 16],
        "chunk": [16, 32, 64, 128],
        "stages": [2, 3, 4, 5],
        "split": common.up_to(max(1, longest), (1, 2, 4, 8, 16)),
        "band": [1, 4, 8, 16],
    }


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Product, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = MmaTiling(shape, choice), choice
    return [
        *common.limit_rules(tiling, target.limits),
        (shape.batch * tiling.blocks[0] * tiling.blocks[1] > 2**31 - 1, "too many blocks"),
        (tiling.tile_m >= 2 * max(shape.m, 16), "rows beyond the output"),
        (tiling.tile_n >= 2 * max(shape.n, 16), "columns beyond the output"),
        (c["stages"] > common.larger(tiling.k_tiles + 1, 2), "more stages than K tiles"),
        (c["chunk"] >= 2 * common.larger(tiling.per_split, 16), "a K tile beyond the reduction"),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.blocks[0]), "a band beyond the output"),
    ]


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: tensor cores, matrix loads, staging, and launches."""
    if shape.dtype == TF32 and not shape.gathers:
        return _float_cycles(shape, choice, target)
    tiling, c = MmaTiling(shape, choice), choice
    blocks = shape.batch * tiling.blocks[0] * tiling.blocks[1] * c["split"]
    occupied = common.occupancy(
        target, blocks, tiling.threads, tiling.registers, tiling.shared_bytes
    )
    busy_warps = occupied.together * tiling.threads // 32
    size = item_bytes(shape)
    steps = tiling.k_tiles * c["chunk"] * size / 32
    # A scheduler starts one product every 7 cycles or so; a matrix load of 512 bytes occupies the
    # multiprocessor for 4.
    products = 7 * c["frags_m"] * c["frags_n"] * max(busy_warps / 4, 1.0)
    loads = 4 * (c["frags_m"] + c["frags_n"] / 2) * busy_warps
    compute = occupied.waves * (steps * max(products, loads) + tiling.k_tiles * 100)
    compute += occupied.waves * _copying(shape, tiling, c) * max(busy_warps / 4, 2.0)
    elements = tiling.k_tiles * c["chunk"] * (tiling.tile_m + tiling.tile_n)
    staging = occupied.waves * occupied.together * elements * size / 48
    reducing = 0.0
    if c["split"] > 1:
        reducing = 4000.0 + 8 * c["split"] * shape.batch * shape.m * shape.n / (
            20 * occupied.multiprocessors
        )
    share = 0.9 if c["stages"] > 2 or occupied.together > 1 else 0.4
    # With a short K the epilogue counts: stores, and exponentials, for whose results a warp that
    # is alone on its scheduler waits.
    ends = occupied.waves * occupied.together * (50 + tiling.tile_m / 4)
    if shape.gathers:
        ends += GATHERING_BLOCK * common.ceil_div(blocks, occupied.multiprocessors)
    ends += _powers(shape, tiling, occupied)
    return common.overlapped_cycles(compute, staging, share) + reducing + ends


def _powers(shape: Product, tiling: MmaTiling, occupied: common.Occupancy) -> float:
    """Return the cycles of the exponentials of an epilogue."""
    results = tiling.tile_m * tiling.tile_n
    shared = max(occupied.together / 128, 2.3 / tiling.threads)
    return 6 * occupied.waves * results * shared * shape.epilogue.has_powers


def _float_cycles(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles of a product as TF32, where few warps wait for each step."""
    tiling, c = MmaTiling(shape, choice), choice
    results = shape.batch * shape.m * shape.n * c["split"]
    blocks = shape.batch * tiling.blocks[0] * tiling.blocks[1] * c["split"]
    occupied = common.occupancy(
        target, blocks, tiling.threads, tiling.registers, tiling.shared_bytes
    )
    steps = c["chunk"] // 8
    words = 4 * c["frags_m"] * (1 if shape.transpose_a else ALONG_K)
    words += 2 * c["frags_n"] * (ALONG_K if shape.transpose_b else 1)
    a_words, b_words = copied_words(shape, tiling, c)
    copying = sum(
        (COPY_CYCLES if word < 4 else COPY) * tile / word
        for tile, word in ((tiling.tile_m, a_words), (tiling.tile_n, b_words))
    )
    issued = steps * (WORD * words + PRODUCT * c["frags_m"] * c["frags_n"])
    issued += copying * c["chunk"] / tiling.threads
    # All schedulers together, and a warp alone; then what is copied meanwhile.
    busy = max(occupied.together * tiling.threads / 128, 1.0) * issued
    working = (busy**3 + (issued + STEP * steps) ** 3) ** (1 / 3) + K_TILE
    staged = 4 * c["chunk"] * (tiling.tile_m + tiling.tile_n) * occupied.together
    k_tile = (working**3 + (staged / COPIED_BYTES) ** 3) ** (1 / 3)
    cycles = occupied.waves * tiling.k_tiles * max(k_tile, LATENCY / (c["stages"] - 1))
    read = sum(argument.bytes for argument in shape.arguments()[:2])
    if read > NEAR_BYTES:
        cycles = (cycles**4 + (read / FAR_BYTES) ** 4) ** 0.25
    adding = 0.0
    if c["split"] > 1:
        adding = ADDING + 8 * results / (20 * occupied.multiprocessors)
    writing = 0.4 * results / occupied.multiprocessors + _powers(shape, tiling, occupied)
    return float(FLOATS_START + cycles + adding + writing)


def _copying(shape: Product, tiling: MmaTiling, c: Mapping[str, int]) -> float:
    """Return the cycles in which a warp issues copies that are gathered or narrow.

    Those of 16 bytes that are not gathered are counted as bytes alone.
    """
    words = copied_words(shape, tiling, c)
    staged = c["chunk"] * item_bytes(shape) // 4 / tiling.threads
    tiles, gathered = (tiling.tile_m, tiling.tile_n), (shape.gathers, False)
    each = 0.0
    for word, tile, gathers in zip(words, tiles, gathered, strict=True):
        cost = GATHER_CYCLES if gathers else COPY_CYCLES if word < 4 else 0
        each += tile * staged / word * cost
    return tiling.k_tiles * each


def _kept_in_registers(
    choice: Mapping[str, int], shape: Product, target: Target
) -> list[tuple[bool, str]]:
    """Return the rules of `violation`, and that addresses of copies leave registers for the sums.

    Compilers keep the addresses of about every second copy of a K tile that is narrower than 16
    bytes, and of all gathered ones (nvcc 13.0, sm_90).
    """
    c, size, tiling = choice, item_bytes(shape), MmaTiling(shape, choice)
    a_words, b_words = copied_words(shape, tiling, c)
    a_copies = tiling.tile_m * c["chunk"] * size // (4 * a_words * tiling.threads)
    b_copies = tiling.tile_n * c["chunk"] * size // (4 * b_words * tiling.threads)
    held = 2 * a_copies if shape.gathers else a_copies * (a_words < 4)
    held = held + b_copies * (b_words < 4)
    return [
        *_rules(choice, shape, target),
        (held > MOST_COPIES, "many addresses"),
        (tiling.registers + held // 2 > MOST_REGISTERS, "sums that are spilled"),
    ]


def default_choice(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn_at_once(
        candidates(shape),
        5000,
        partial(_kept_in_registers, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(
    shape: Product, choice: Mapping[str, int], plain: Product | None = None
) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Args:
        plain: what is asked for, where ``shape`` is that of padded copies of a and b: kernels take
            its arguments and write its result.

    Raises:
        TemplateError: rows of the matrices are not aligned to 4 bytes.
    """
    _check(shape)
    tiling, c, asked = MmaTiling(shape, choice), choice, plain or shape
    split, integers, floats = c["split"] > 1, shape.dtype == "int8", shape.dtype == TF32
    grid = (shape.batch * tiling.blocks[0] * tiling.blocks[1], c["split"])
    names, out = first_names(asked), result_name(asked)
    main = [*names, "partial" if split else out]
    strips = _in_strips(asked, floats or split)
    shared = max(tiling.shared_bytes, strips * tiling.threads // 32 * FLOAT_STRIP_BYTES)
    calls = [call("gemm_mma", main, grid, tiling.threads, shared)]
    size = asked.batch * asked.m * asked.n
    if split:
        blocks = common.ceil_div(size, 128 * (1 if asked.n % 2 else 2))
        calls.append(call("gemm_mma_reduce", ["partial", *names[2:], out], blocks, 128))
    result = "float" if split or floats else "int" if integers else "unsigned short"
    halves = {"ELEMENT": 1 + HALVES.index(shape.dtype)} if shape.dtype in HALVES else {}
    texts = [*(["elements.h"] if halves else []), "epilogue.h", "operands.h", "mma.h", "pairs.h"]
    if integers and (shape.transpose_a or not shape.transpose_b):
        texts.append("mma_int8_across.h")
    texts += ["float_strips.h"] if strips else []
    # Activations have a text of their own, shorter for 16-bit floats.
    last = {"LAST": shape.epilogue.number, "ACTIVATION": 0}
    defines = {**_defines(shape, tiling, c, asked), **shape.operands(), **halves, **last}
    return common.cuda_kernel(
        asked,
        [*texts, "exp2.h", "activations.h", "gemm_mma.cu"],
        {**defines, "RESULT": result, "STRIPS": int(strips)},
        calls,
        (c["split"], size) if split else None,
    )


def _in_strips(asked: Product, floats: bool) -> bool:
    """Return whether each warp writes rows in strips, where the stages were.

    Args:
        floats: whether results, or partial sums, are floats.
    """
    if asked.dtype == "int8" or asked.n % 2:
        return asked.dtype != "int8"
    many = asked.batch * asked.m * asked.n >= MANY_EVEN
    return floats and asked.n % 8 > 0 and many


def _defines(
    shape: Product, tiling: MmaTiling, c: Mapping[str, int], asked: Product
) -> Mapping[str, int]:
    """Return the parameters of the kernel text, except those of its operands."""
    a_words, b_words = copied_words(shape, tiling, c)
    integers = {"k_rows": shape.k} if shape.dtype == "int8" else {}
    return common.defines(
        m=shape.m, n=shape.n, k=depth(shape), c_m=asked.m, c_n=asked.n, threads=tiling.threads,
        k_per_split=tiling.per_split, a_words=a_words, b_words=b_words,
        int8=shape.dtype == "int8", tf32=shape.dtype == TF32,
        bfloat16=shape.dtype == "bfloat16", **c, **integers,
    )  # fmt: skip


def _check(shape: Product) -> None:
    if not reads(shape):
        raise TemplateError(
            f"gemm of {shape.dtype}: rows of both operands in memory must be multiples of 4 "
            f"bytes, got {shape}"
        )
