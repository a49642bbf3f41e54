"""Products of 8-bit integers whose operands are not K-major, on transposed copies.

Tensor cores read K-major integers only, as pairs of 16 bits: by ``mma.sync`` where k is a multiple
of 4, by TMA where it is one of 16 (`gemm_tma`). Kernels before the product transpose what is
not K-major, and pad rows to a multiple of 16; everything else is as for products of 16-bit floats
(`gemm_half`). A matrix that is used many times is better stored as [n, k].
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from autotune import SourceKernel, Target, call, workspace

from .. import common
from . import gemm_half, gemm_skinny_int8, gemm_tma
from .gemm_padded import Products
from .gemm_shape import Gemm

# Of the kernel that transposes: threads of a block, and its tile across and along K.
THREADS, ACROSS, ALONG = 256, 64, 128
# Columns of few rows up to which ``mma.sync``, without split-K, has too few blocks.
FEW_COLUMNS = 2048
TRANSPOSE = "transpose_int8.h"
TEXTS = ("dependent_launch.h", TRANSPOSE, "transposed_int8.cu")
# Multiply-adds from which on copies pay for products that ``mma.sync`` could read as they are, and
# extent of K from which on they do for few columns too: 150x50x96984 nt took 318 us without.
MANY_PRODUCTS, LONG_SUM = 2**28, 4096


def is_needed(shape: Gemm) -> bool:
    """Return whether no kernel reads the operands as they are stored."""
    along_k = shape.transpose_b and not shape.transpose_a
    return not along_k or shape.k % 4 > 0


def gains(shape: Gemm, target: Target) -> bool:
    """Return whether copies pay for a product that ``mma.sync`` could read as it is."""
    many = shape.batch * shape.m * shape.n * shape.k >= MANY_PRODUCTS
    least = gemm_tma.FEW_ROWS if shape.k >= LONG_SUM else gemm_half.FULL_ROWS
    full = min(shape.m, shape.n) >= least and shape.k > gemm_half.SHORT_SUM
    return many and full and shape.k % 16 > 0 and gemm_tma.offered(along_k(shape), target)


def streams_copies(shape: Gemm, knobs: Container[str]) -> bool:
    """Return whether a product of few rows runs by `gemm_skinny_int8` on copies of operands.

    Those are a, where it is stored as [k, m], and what has rows of no multiple of 16, unless b is
    stored as [k, n] then. On an H200 4x680x5896 nt took 21 us by ``mma.sync``, which has too few
    blocks there, and 8.2 so; a large b that ``mma.sync`` can read is not copied.

    Args:
        knobs: names of the knobs that were chosen, if any.
    """
    padded = shape.k % 16 > 0
    copied = shape.transpose_b if padded else shape.transpose_a
    if padded and not is_needed(shape) and shape.n > FEW_COLUMNS:
        return False
    return copied and gemm_skinny_int8.suits(_streamed(shape), knobs)


def _streamed(shape: Gemm) -> Gemm:
    """Return the shape of the product of copies by `gemm_skinny_int8`, which reads any b."""
    return replace(along_k(shape), transpose_b=shape.transpose_b)


def along_k(shape: Gemm) -> Gemm:
    """Return the shape of the copies."""
    return replace(shape, transpose_a=False, transpose_b=True, k=shape.k + -shape.k % 16)


@dataclass(frozen=True)
class AlongK:
    """A family of products, applied to K-major copies."""

    family: Products

    def candidates(self, shape: Gemm) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        return self.family.candidates(self._whole(shape))

    def violation(self, shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""
        return self.family.violation(self._whole(shape), choice, target)

    def default_choice(self, shape: Gemm, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        return self.family.default_choice(self._whole(shape), target)

    def kernel(self, shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: copies, and the product."""
        source = self._product(shape, choice)
        padded, across = shape.k % 16 > 0, self._whole(shape).transpose_b > shape.transpose_b
        copied = {"a": shape.transpose_a or padded, "b": across or padded}
        names = {name: f"{name}_along_k" for name, there in copied.items() if there}
        sizes = _sizes(shape)
        product = [
            replace(one, args=tuple(names.get(name, name) for name in one.args))
            for one in source.calls
        ]
        if choice.get(gemm_half.KNOB):  # kernels that wait for the copies (dependent launch)
            product[0] = replace(product[0], launch=replace(product[0].launch, early=True))
        blocks = {name: _blocks(sizes[name]) for name in names}
        given = [each for pair in names.items() for each in pair]
        calls = [call("along_k", given, sum(blocks.values()), THREADS), *product]
        sides = common.defines(
            copy_a=copied["a"], copy_b=copied["b"], copy_transposes_a=shape.transpose_a,
            copy_transposes_b=not shape.transpose_b, k_plain=shape.k, a_rows=shape.m,
            b_rows=shape.n, a_blocks=blocks.get("a", 0),
        )  # fmt: skip
        # Kernels of few rows have that text.
        texts = [t for t in TEXTS if t != TRANSPOSE or self.family is not gemm_skinny_int8]
        copies = [
            workspace(copy, (math.prod(sizes[name]),), "int8") for name, copy in names.items()
        ]
        return replace(
            source,
            name=calls[0].entry,
            source=f"{source.source}\n{common.text(*texts)}",
            defines={**source.defines, **sides},
            calls=calls,
            workspace=[*source.workspace, *copies],
        )

    def _whole(self, shape: Gemm) -> Gemm:
        """Return the shape of the product that runs."""
        return _streamed(shape) if self.family is gemm_skinny_int8 else along_k(shape)

    def _product(self, shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of the product of the copies, which take what is asked for."""
        whole = self._whole(shape)
        if self.family is not gemm_skinny_int8:
            return gemm_half.kernel(whole, choice, shape)
        made = gemm_skinny_int8.kernel(whole, choice)
        return replace(made, args=shape.arguments(), reference=shape.reference())


def _sizes(shape: Gemm) -> dict[str, tuple[int, int, int]]:
    """Return the matrices, rows and integers of rows of the copies."""
    of_a, of_b = (1 if name == shape.shared else shape.batch for name in "ab")
    k = along_k(shape).k
    return {"a": (of_a, shape.m, k), "b": (of_b, shape.n, k)}


def _blocks(size: tuple[int, int, int]) -> int:
    """Return the blocks that copy an operand."""
    matrices, rows, k = size
    return matrices * common.ceil_div(rows, ACROSS) * common.ceil_div(k, ALONG)
