"""Products of floats as TF32 by ``wgmma``, whose operands are not both K-major.

From shared memory ``wgmma`` reads TF32 operands K-major only; its left operand may also come from
registers, to which threads load either layout. So `gemm_tma` needs one K-major operand, the right
one, which with swapped operands is a. Otherwise kernels before the product transpose what is not
K-major, pad rows to a multiple of 4, and round to 11 bits; ``mma.sync``, which is in the same
space, reads either layout. Copies move a matrix once more, which pays from some hundred rows and
columns on. Of a convolution NHWC the filters are not
K-major; its im2col matrix is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from autotune import SourceKernel, Target, call, workspace
from autotune.kernel import KernelCall

from .. import common
from ..convolutions.conv2d_nhwc import Conv2dNhwc
from . import gemm_half, gemm_mma, gemm_tma, gemm_tma_untuned, gemm_wgmma
from .gemm_shape import TF32, Gemm, first_names
from .gemm_tma_form import Form

# Rows and columns from which on products outweigh the copies, if kernels of float32 are no faster
# (`gemm_tf32`); of convolutions fewer, and as long sums, which ``mma.sync`` gathers slowly: 56x56
# pixels of 64 channels by 64 filters of 3x3 took 5.9 us on an H200, 9.4 without, and eight such
# images 16.6 and 27.1.
LEAST, LEAST_OF_CONVOLUTIONS = 128, 64
# Rows of tiles from which on those that need no copies are faster than by ``mma.sync``; and above
# so many multiply-adds: 43 of 396x320x20 took 8.1 us by TMA on an H200, 21.9 by ``mma.sync``,
# 530x336x24 with a residual 2.63 and 2.73.
LEAST_ROWS, SMALL = 64, gemm_tma_untuned.TINY_FLOATS
# Bytes that copies move in a cycle of a multiprocessor, and those beyond the L2 cache:
# 274x158x37763 nt took an H200 77.8 us on copies, 62.2 by `gemm_bf16x3_fused`.
COPIED_NEAR, COPIED_FAR = 16, 14
# Estimated cycles up to which convolutions are faster by ``cp.async``, including copies of
# filters.
SHORT_CONVOLUTION = 15000
# Bytes of results and a residual from which on these are not in the L2 cache.
FAR_RESIDUAL = 32_000_000
# What can be multiplied so.
Shape = Gemm | Conv2dNhwc


def is_needed(shape: Shape, target: Target) -> bool:
    """Return whether wgmma needs registers or transposed copies to multiply a shape."""
    if shape.dtype != TF32 or gemm_wgmma.refusal(shape) is None:
        return False
    if gemm_tma.refusal(shape) is None:
        rows = shape.m if shape.transpose_b else shape.n
        worth = rows >= LEAST_ROWS and shape.batch * shape.m * shape.n * shape.k > SMALL
    else:
        windows = min(shape.m, shape.n, shape.k) >= LEAST_OF_CONVOLUTIONS
        many = shape.batch * shape.m * shape.n * shape.k > SMALL
        long = min(shape.m, shape.n, shape.k) >= LEAST
        worth = windows if shape.gathers else many or long
    return worth and gemm_wgmma.offered(k_major(shape), target)


def k_major(shape: Shape, knob: int = 1) -> Shape:
    """Return the shape of the product that runs: of copies, where operands are copied.

    Args:
        knob: by which `gemm_half` selects a family. Those by TMA read the left operand, or b where
            operands are swapped, in either layout.
    """
    if isinstance(shape, Conv2dNhwc):
        return replace(shape, transpose_b=_copied(shape, knob)["b"])
    copied = _copied(shape, knob)
    return replace(
        shape,
        transpose_a=shape.transpose_a and not copied["a"],
        transpose_b=shape.transpose_b or copied["b"],
        k=shape.k + -shape.k % 4,
    )


def _copied(shape: Shape, knob: int) -> dict[str, bool]:
    """Return which operands are copied: those in a layout that a family does not read."""
    swapped = Form.of(knob).swapped > 0
    b = not shape.transpose_b and not (knob > 1 and swapped and shape.b_run % 4 == 0)
    if isinstance(shape, Conv2dNhwc):
        return {"a": False, "b": b}
    a = shape.transpose_a and not (knob > 1 and not swapped and shape.a_run % 4 == 0)
    padded = shape.k % 4 > 0  # TMA fills rows across K beyond the last with zeros
    return {"a": a or (padded and not shape.transpose_a), "b": b or (padded and shape.transpose_b)}


def copies(shape: Shape, choice: Mapping[str, int]) -> int:
    """Return how many operands a choice copies."""
    knob = choice[gemm_half.KNOB]
    return sum(_copied(shape, knob).values()) if knob else 0


def candidates(shape: Shape) -> dict[str, list[int]]:
    """Return the values each knob may take.

    Filters whose channels do not fill boxes of TMA are read as they are, with swapped operands.
    """
    options = gemm_half.candidates(k_major(shape))
    if gemm_tma.refusal(k_major(shape)) is None or gemm_tma.refusal(shape) is not None:
        return options
    others = gemm_tma.candidates(shape)
    others[gemm_half.KNOB] = [v for v in others[gemm_half.KNOB] if Form.of(v).swapped]
    return {name: sorted({*values, *others[name]}) for name, values in options.items()}


def violation(shape: Shape, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run, or None."""
    knob = choice[gemm_half.KNOB]
    return gemm_half.violation(k_major(shape, knob) if knob else shape, choice, target)


def estimate(shape: Shape, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles."""
    knob = choice[gemm_half.KNOB]
    if not knob:
        return gemm_mma.estimate(shape, choice, target)
    multiprocessors = target.limits.sm_count if target.limits.sm_count > 1 else 132
    sizes = [_sizes(shape)[name] for name, there in _copied(shape, knob).items() if there]
    moved, copies = sum(8 * math.prod(size) for size in sizes), len(sizes)
    product = gemm_half.estimate(k_major(shape, knob), choice, target)
    rate = COPIED_NEAR if moved <= 2 * gemm_mma.NEAR_BYTES else COPIED_FAR
    return product + 2500 * copies + moved / (rate * multiprocessors)


def default_choice(shape: Shape, target: Target) -> dict[str, int]:
    """Return the choice to use where nothing was tuned: without copies, where possible.

    So six products of 512 to 4096 and eight of nine layers of 3x3 were 1.05 to 2.6 times as fast
    on an H200. Copies of filters are cheap, and TMA in im2col mode starts late: 64 filters on
    56x56 pixels took 5.9 us on copies, 7.0 without, and 128 on 28x28 6.4 and 7.3.
    """
    if shape.gathers:
        choice = {gemm_half.KNOB: 1, **gemm_wgmma.default_choice(k_major(shape), target)}
        if estimate(shape, choice, target) <= SHORT_CONVOLUTION:
            return choice
    knobs = {swapped: Form(0, 1, swapped).knob for swapped in (0, 1)}
    uncopied = {s: knob for s, knob in knobs.items() if not any(_copied(shape, knob).values())}
    choices = []
    # Rows that are no whole sectors take longest to write: strips, or swapped operands, pay for
    # copies too. So does a residual that is not in the L2 cache: unless operands are swapped, it
    # is read in pairs.
    forms = knobs if shape.n % 8 else uncopied or knobs
    if has_far_residual(shape) and gemm_tma.refusal(k_major(shape, knobs[0])) is None:
        forms = {0: knobs[0]}
    for swapped, knob in forms.items():
        whole = k_major(shape, knob)
        if gemm_tma.refusal(whole) is None:
            choices.append(gemm_tma.default_choice(whole, target, swapped=swapped))
    able = [choice for choice in choices if violation(shape, choice, target) is None]
    if not able:
        return gemm_half.default_choice(k_major(shape), target)
    return min(able, key=partial(estimate, shape, target=target))


def has_far_residual(shape: Shape) -> bool:
    """Return whether results and a residual that is added to them exceed the L2 cache."""
    moved = 8 * shape.batch * shape.m * shape.n
    pairs = not shape.gathers and shape.n % 2 == 0
    return pairs and shape.epilogue.residual and moved > FAR_RESIDUAL


def kernel(shape: Shape, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice: copies, and the product."""
    knob = choice[gemm_half.KNOB]
    copied = _copied(shape, knob) if knob else {}
    if not any(copied.values()):
        return gemm_half.kernel(shape, choice)
    whole, sizes = k_major(shape, knob), _sizes(shape)
    source = gemm_half.kernel(whole, choice, shape)
    given = dict(zip("ab", first_names(shape), strict=False))
    names = {name: f"{given[name]}_along_k" for name, there in copied.items() if there}
    calls = [_copy(name, given[name], names[name], sizes[name]) for name in names]
    read = {given[name]: copy for name, copy in names.items()}
    product = [
        replace(one, args=tuple(read.get(name, name) for name in one.args)) for one in source.calls
    ]
    product[0] = replace(product[0], launch=replace(product[0].launch, early=True))
    sides = common.defines(
        copy_a=copied["a"], copy_b=copied["b"], copy_transposes_a=shape.transpose_a,
        copy_transposes_b=not shape.transpose_b, k_plain=shape.k, rows_a=shape.m, rows_b=shape.n,
    )  # fmt: skip
    return replace(
        source,
        name=calls[0].entry,
        source=f"{source.source}\n{common.text('dependent_launch.h', 'transposed_tf32.cu')}",
        defines={**source.defines, **sides},
        calls=[*calls, *product],
        workspace=[
            *source.workspace,
            *(workspace(names[name], (math.prod(sizes[name]),), "float32") for name in names),
        ],
    )


def _sizes(shape: Shape) -> dict[str, tuple[int, int, int]]:
    """Return the matrices, rows and elements of rows of the copies."""
    shared = "" if isinstance(shape, Conv2dNhwc) else shape.shared
    of_a, of_b = (1 if name == shared else shape.batch for name in "ab")
    k = k_major(shape).k
    return {"a": (of_a, shape.m, k), "b": (of_b, shape.n, k)}


def _copy(name: str, given: str, copy: str, size: tuple[int, int, int]) -> KernelCall:
    matrices, rows, k = size
    blocks = matrices * common.ceil_div(rows, 32) * common.ceil_div(k, 32)
    return call(f"along_k_{name}", [given, copy], blocks, 256)
