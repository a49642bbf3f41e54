"""The source templates of volumes and of transposed convolutions, registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune import SourceKernel, Target, get_config
from autotune.errors import GraphError, TemplateError
from autotune.graph import ops

from .arguments import template
from .convolutions import conv2d_bf16x3, conv2d_cuda, phases
from .convolutions.conv2d_shape import Conv2d
from .convolutions.phases import Phases
from .convolutions.via_conv2d import AsImages
from .convolutions.volumes import Spread, Volume
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
    shape = Volume(op, tuple(data), tuple(weight))
    _checked("conv3d.cuda", shape)
    return tunable(AsImages(_family(shape.images)), shape, "cuda")


@template("conv2d_transpose.cuda")
def conv2d_transpose_cuda(
    data: Extents, weight: Extents, strides: Extents = (1,), padding: Extents = (0,),
    output_padding: Extents = (0,),
) -> SourceKernel:  # fmt: skip
    """Spread float32 images, of shape ``data`` NCHW, by filters, of shape ``weight`` IOHW.

    Args:
        strides: at which elements of the data are spread.
        padding: what is cut off, one for all sides, (y, x), or (top, left, bottom, right).
        output_padding: rows and columns added below and to the right.
    """
    op = ops.Conv2dTranspose(tuple(strides), tuple(padding), tuple(output_padding))
    shape = Spread(op, tuple(data), tuple(weight))
    _checked("conv2d_transpose.cuda", shape)
    if not shape.is_woven:
        raise TemplateError(f"conv2d_transpose.cuda: more is cut off than filters reach: {shape}")
    if phases.chosen_before(get_config()):
        return tunable(AsImages(_family(shape.images)), shape, "cuda")
    return tunable(_phases(shape), shape, "cuda")


def _phases(shape: Spread) -> Phases:
    """Return the family that is likely to be the faster, and the ways that it serves."""
    target = Target.current() or Target("cuda")
    families = {way: _family(way.images) for way in phases.ways(shape)}
    best = min(families, key=lambda way: phases.cycles(families[way], way, target))
    same = [way for way, family in families.items() if family is families[best]]
    return Phases(families[best], tuple(int(way.apart) for way in same))


def _checked(name: str, shape: Volume | Spread) -> None:
    """Raise TemplateError where the operator does not take such data and weight."""
    try:
        shape.out  # noqa: B018 - infers the result
    except GraphError as error:
        raise TemplateError(f"{name}: {error}") from error


def _family(images: Any) -> Any:
    """Return the kernels of a convolution of images, a family as `AsImages` takes it."""
    if not isinstance(images, Conv2d):
        return gemm_cuda
    old = conv2d_bf16x3.chosen_before(get_config())
    split = not old and conv2d_bf16x3.offered(images, Target.current() or Target("cuda"))
    return conv2d_bf16x3 if split else conv2d_cuda
