"""Convolutions of networks for the templates of Winograd's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.graph import ops
from autotune.network.implementations import Offer, implements
from autotune.network.layer import Epilogue, Layer

from .. import te_winograd
from ..common import ceil_div
from ..convolutions.winograd_cpu import tile_of
from .cuda import ACTIVATIONS, FLOAT32, given, padding_of

# Channels from which on transforming images and results is little beside the products.
_MANY = 16
# Tiles of 4x4 results below which a GPU may do better by 2x2: products have more columns, less of
# a tile is outside of the image, and the filters are less than half as many bytes.
_FEW_TILES = 64


def _suits(layer: Layer) -> bool:
    """Return whether it is a 3x3 convolution with stride 1 by many filters that are known."""
    op, (_, weight) = layer.op, layer.inputs
    assert isinstance(op, ops.Conv2d)
    co, ci, kh, kw = weight.shape
    moves = {*op.steps, *op.holes, op.groups}
    known = weight in layer.constants
    return known and (kh, kw) == (3, 3) and moves == {1} and min(co, ci) >= _MANY


def _usual_tile(images: int, rows: int, columns: int) -> int:
    """Return the tile that does best on most images of so many results."""
    return tile_of(rows, columns)


def _other_tile(images: int, rows: int, columns: int) -> int | None:
    """Return the tile that may do better than the usual one; None if none does."""
    few = images * ceil_div(rows, 4) * ceil_div(columns, 4) < _FEW_TILES
    return 2 if few and tile_of(rows, columns) > 2 else None


def _winograd(
    template: str, tile_for: Callable[[int, int, int], int | None]
) -> Callable[[Layer], Offer | None]:
    def winograd(layer: Layer) -> Offer | None:
        """Offer the kernels with their epilogue; filters are transformed once."""
        epilogue, (data, weight) = layer.epilogue, layer.inputs
        if not _suits(layer):
            return None
        if (epilogue.scale is None) != (epilogue.shift is None) and not epilogue.shifts:
            return None
        assert isinstance(layer.op, ops.Conv2d)
        tile = tile_for(data.shape[0], *layer.result.shape[2:])
        if tile is None:
            return None
        if template.endswith("cpu") and tile < 4:  # filters take as long to read as is saved
            return None
        n, ci, h, w = data.shape
        args: tuple[Any, ...] = (
            *(n, h, w, weight.shape[0], ci, tile, padding_of(layer.op.sides)),
            *(epilogue.bias is not None, epilogue.activation),
            *(epilogue.residual is not None, epilogue.scale is not None),
        )
        if epilogue.kept:
            args = (*args, "NCHW", True, *([True] if epilogue.shifts else []))
        prepared = {weight: ops.WinogradWeight(tile, "OIHW")}
        return Offer(template, args, (*layer.inputs, *given(epilogue)), prepared)

    return winograd


@implements(
    "nn.conv2d", "cuda", "te/conv2d_nchw_winograd.cuda", layouts=["NCHW"], dtypes=FLOAT32
)  # fmt: skip
def te_conv2d_nchw_winograd(layer: Layer) -> Offer | None:
    """Offer the tensor expression that has the knobs of TVM's template, for its records."""
    if not _suits(layer) or layer.epilogue != Epilogue():
        return None
    assert isinstance(layer.op, ops.Conv2d)
    data, weight = layer.inputs
    n, ci, h, w = data.shape
    args: tuple[Any, ...] = (n, h, w, weight.shape[0], ci, 3, padding_of(layer.op.sides))
    prepared = {weight: ops.WinogradWeight(te_winograd.tile_of(h), "OIHW")}
    return Offer("te/conv2d_nchw_winograd.cuda", args, layer.inputs, prepared)


for _kind, _activations, _tile in (
    ("cpu", ("none", "relu"), _usual_tile),
    ("cuda", ACTIVATIONS, _usual_tile),
    ("cuda", ACTIVATIONS, _other_tile),
):
    _name, _keeps = f"winograd_conv2d.{_kind}", _kind == "cuda"
    implements("nn.conv2d", _kind, _name, ["NCHW"], FLOAT32, _activations, _keeps)(
        _winograd(_name, _tile)
    )
