"""Registers the source templates of 3-D and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune import SourceKernel, Target, get_config
from autotune.errors import GraphError, TemplateError
from autotune.graph import ops

from .arguments import template
from .convolutions import conv2d_float, conv2d_transpose_direct
from .convolutions.conv2d_shape import Conv2d
from .convolutions.conv2d_transpose import (
    KNOB,
    Conv2dTranspose,
    Phases,
    chosen_before,
    cycles,
    ways,
)
from .convolutions.conv3d import Conv3d
from .convolutions.via_conv2d import ViaConv2d
from .products import gemm_cuda
from .source import tunable

Extents = Sequence[int]


@template("conv3d.cuda")
def conv3d_cuda(
    data: Extents, weight: Extents, strides: Extents = (1,), padding: Extents = (0,),
    dilation: Extents = (1,), layout: str = "NCDHW",
) -> SourceKernel:  # fmt: skip
    """Convolve volumes of float32: data (n, ci, depth, height, width), weight (co, ci, ...).

    Args:
        data, weight: their shapes; where the layout is ``"NDHWC"`` channels are last, and the
            weight is (depth, height, width, ci, co).
        strides, dilation: one for all axes, or one each.
        padding: one for all, one each, or those before and those after.
    """
    filters = "OIDHW" if layout == "NCDHW" else "DHWIO"
    op = ops.Conv3d(tuple(strides), tuple(padding), tuple(dilation), 1, layout, filters)
    shape = Conv3d(op, tuple(data), tuple(weight))
    _checked("conv3d.cuda", shape)
    family: Any = gemm_cuda
    conv2d: Any = shape.conv2d
    if layout == "NCDHW":
        target, config = Target.current() or Target("cuda"), get_config()
        known = conv2d_float.known_by(config)
        # What was chosen of other families was chosen between copies.
        if known is None or known in conv2d_float.IN_VOLUMES:
            shape = shape.faster(target)
        conv2d = shape.conv2d
        family = conv2d_float.family_of(conv2d, target, config)
    return tunable(ViaConv2d(family), shape, "cuda")


@template("conv2d_transpose.cuda")
def conv2d_transpose_cuda(
    data: Extents, weight: Extents, strides: Extents = (1,), padding: Extents = (0,),
    output_padding: Extents = (0,),
) -> SourceKernel:  # fmt: skip
    """Transposed convolution of float32: ``data`` NCHW by filters ``weight`` IOHW.

    Args:
        strides: of the result, for each step in the data.
        padding: rows and columns cut off the result, one for all sides, (y, x), or
            (top, left, bottom, right).
        output_padding: rows and columns added below and to the right.
    """
    op = ops.Conv2dTranspose(tuple(strides), tuple(padding), tuple(output_padding))
    shape = Conv2dTranspose(op, tuple(data), tuple(weight))
    _checked("conv2d_transpose.cuda", shape)
    if not shape.has_phases:
        raise TemplateError(
            f"conv2d_transpose.cuda: padding exceeds the extent of the filters: {shape}"
        )
    if chosen_before(get_config()):
        return tunable(ViaConv2d(_family(shape.conv2d)), shape, "cuda")
    phases, target = _phases(shape), Target.current() or Target("cuda")
    is_one = conv2d_transpose_direct.is_chosen(get_config()) or (
        KNOB not in get_config()
        and conv2d_transpose_direct.is_faster(shape, phases.estimate(shape, target), target)
    )
    return tunable(conv2d_transpose_direct if is_one else phases, shape, "cuda")


def _phases(shape: Conv2dTranspose) -> Phases:
    """Return the family with the least estimate, and the forms that it serves."""
    target = Target.current() or Target("cuda")
    families = {way: _family(way.conv2d) for way in ways(shape)}
    best = min(families, key=lambda way: cycles(families[way], way, target))
    same = [way for way, family in families.items() if family is families[best]]
    return Phases(families[best], tuple(int(way.apart) for way in same))


def _checked(name: str, shape: Conv3d | Conv2dTranspose) -> None:
    """Raise TemplateError where the operator does not take such data and weight."""
    try:
        shape.out  # noqa: B018 - infers the result
    except GraphError as error:
        raise TemplateError(f"{name}: {error}") from error


def _family(conv2d: Any) -> Any:
    """Return the family of kernels of a 2-D convolution."""
    if not isinstance(conv2d, Conv2d):
        return gemm_cuda
    known = conv2d_float.known_by(get_config())
    return known or conv2d_float.fastest(conv2d, Target.current() or Target("cuda"))
