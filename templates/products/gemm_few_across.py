"""Products of few rows of 16-bit floats whose a is stored as [k, m], on a K-major copy of a.

Of such an a TMA loads boxes with a row of 64 numbers for each k, however few are there, which
takes longer than to load a large b. A kernel before the product transposes a, which is small; the
product may begin early (programmatic dependent launch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune import SourceKernel, Target, call, workspace

from .. import common
from . import gemm_half, gemm_skinny, gemm_tma
from .gemm_shape import HALVES, Gemm
from .gemm_tma_form import KNOB, Form

# Numbers of a vector of 16 bytes; terms that a block of the kernel that copies takes, of all rows,
# and its threads.
VECTOR, COPIED, THREADS = 8, 32, 128
# Rows, elements of b, columns and terms of products that run so untuned. Of 8 and 24 rows
# 32 took an H200 0.72 to 1.02 of the time, hot and cold together; of 16 and 32 rows all of eight
# drawn ones took longer, up to 1.14 times.
FEW_ROWS, SOME_ROWS = 8, (17, 24)
LEAST, LEAST_COLUMNS, LEAST_SUM, LONGEST = 2**21, 2048, 512, 8192
# Columns from which on, and terms up to which, `gemm_skinny` runs the product.
MANY_COLUMNS, SHORT_SUM = 4096, 2600
TEXTS = ("dependent_launch.h", "transposed_half.cu")
ENTRY, COPY = "along_k_a", "a_along_k"


def refusal(shape: Gemm) -> str | None:
    """Return why these kernels cannot serve a shape, or None."""
    rules = [
        (shape.dtype not in HALVES, "operands must be 16-bit floats"),
        (shape.batch > 1, "there must be one matrix"),
        (not shape.transpose_a, "a must be stored as [k, m]"),
        (shape.m > gemm_skinny.MOST_ROWS, f"more than {gemm_skinny.MOST_ROWS} rows"),
        (shape.a_run % VECTOR > 0 or shape.b_run % VECTOR > 0, "rows must be aligned"),
        (shape.by_rows, "channels must be columns"),
    ]
    return common.first_broken(rules)


def offered(shape: Gemm, target: Target) -> bool:
    """Return whether a target has these kernels, and they can multiply a shape."""
    return refusal(shape) is None and gemm_tma.offered(along_k(shape), target)


def along_k(shape: Gemm) -> Gemm:
    """Return the shape of the product of the copy."""
    return replace(shape, transpose_a=False, k=VECTOR * common.ceil_div(shape.k, VECTOR))


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape: those of kernels by TMA."""
    options = gemm_half.candidates(along_k(shape))
    return {**options, KNOB: [knob for knob in options[KNOB] if _streams(knob)]}


def _streams(knob: int) -> bool:
    """Return whether b is streamed by TMA for all rows of a."""
    return knob == gemm_skinny.VALUE or Form.of(knob).swapped > 0


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run, or None."""
    return gemm_half.violation_in_family(along_k(shape), choice, target)


def suits(shape: Gemm, target: Target) -> bool:
    """Return whether a product runs so where nothing was tuned."""
    some = SOME_ROWS[0] <= shape.m <= SOME_ROWS[1]
    most = LONGEST if some else SHORT_SUM
    few = refusal(shape) is None and (some or shape.m <= FEW_ROWS) and shape.n >= LEAST_COLUMNS
    if not few or not LEAST_SUM <= shape.k <= most or shape.n * shape.k < LEAST:
        return False
    choice = _fastest(shape, target)
    return _streams(choice[KNOB]) and violation(shape, choice, target) is None


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return the choice to use where nothing was tuned: one that streams b."""
    choice = _fastest(shape, target)
    return choice if _streams(choice[KNOB]) else gemm_skinny.default_choice(along_k(shape), target)


def _fastest(shape: Gemm, target: Target) -> dict[str, int]:
    """Return the choice for the product of a copy that is known to be fastest, of any kernel."""
    whole = along_k(shape)
    if shape.n >= MANY_COLUMNS and shape.k <= SHORT_SUM:
        choice = gemm_skinny.default_choice(whole, target)
        if gemm_skinny.violation(whole, choice, target) is None:
            return choice
    return gemm_half.default_choice(whole, target)


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice: the copy, and the product."""
    whole = along_k(shape)
    source = gemm_half.kernel(whole, choice, shape)
    product = [
        replace(one, args=tuple(COPY if name == "a" else name for name in one.args))
        for one in source.calls
    ]
    product[0] = replace(product[0], launch=replace(product[0].launch, early=True))
    blocks = common.ceil_div(whole.k, COPIED)
    sides = common.defines(k_plain=shape.k, k_copy=whole.k, copy_rows=shape.m)
    return replace(
        source,
        name=ENTRY,
        source=f"{source.source}\n{common.text(*TEXTS)}",
        args=shape.arguments(),
        defines={**source.defines, **sides},
        calls=[call(ENTRY, ["a", COPY], blocks, THREADS), *product],
        workspace=[*source.workspace, workspace(COPY, (shape.m * whole.k,), shape.dtype)],
        reference=shape.reference(),
    )
