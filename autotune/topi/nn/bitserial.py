"""Packs numbers of few bits into words, for operators that count bits."""

from __future__ import annotations

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, takes, tensor, text
from autotune.topi.utils import axis_names

_WIDTHS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}


@takes(data=tensor, name=text)
def bitpack(
    data: Tensor,
    bits: int,
    pack_axis: int,
    bit_axis: int,
    pack_type: str,
    name: str = "QuantizeInput",
) -> Tensor:
    """Pack a tensor of small numbers: one word holds one bit of as many elements as it has bits.

    The first of these elements is the word's highest bit.

    Args:
        data: whole numbers of ``bits`` bits.
        bits: how many bits of each are packed, from the lowest.
        pack_axis: the axis of ``data`` whose neighbours share a word.
        bit_axis: where the result has its new axis, of extent ``bits``.
        pack_type: dtype of a word.
        name: name of the result.
    """
    check = asks("bitpack")
    width = _WIDTHS[check.one_of("pack_type", pack_type, tuple(_WIDTHS))]
    check.whole("bits", bits, 1, width)
    check.whole("pack_axis", pack_axis, 0, data.ndim - 1)
    check.whole("bit_axis", bit_axis, 0, data.ndim)
    shape, extent = list(data.shape), data.shape[pack_axis]
    if not isinstance(extent, int) or extent % width:
        expected = f"an axis whose extent is a multiple of {width}, the bits of a {pack_type}"
        check.refuse("pack_axis", expected, extent)
    shape[pack_axis] = extent // width
    shape.insert(bit_axis, bits)

    def body(*indices: Expr) -> Expr:
        place = list(indices)
        bit = place.pop(bit_axis)
        first = place[pack_axis] * width
        word: Expr | None = None
        for k in range(width):
            place[pack_axis] = first + k
            element = data(*place)
            one = ((element >> bit.astype(element.dtype)) & 1).astype(pack_type)
            shifted = one << te.const(width - 1 - k, pack_type)
            word = shifted if word is None else word | shifted
        assert word is not None
        return word

    names = axis_names(data.ndim + 1, "i")
    result: Tensor = te.compute(shape, body, name, "bitpack", varargs_names=names)
    return result


def binary_op_multiplier(pack_dtype: str) -> int:
    """Return how many bits of a word one operation combines."""
    return _WIDTHS[asks("binary_op_multiplier").one_of("pack_dtype", pack_dtype, tuple(_WIDTHS))]
