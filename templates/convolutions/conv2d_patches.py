"""Convolutions NCHW of float32 whose windows do not overlap, as products by `gemm_bf16x3`.

Patches of a vision transformer are such windows: each element of an image is read once, so that
windows written as rows of a matrix cost as little as another copy. The kernel before the product,
which splits floats into pieces, writes them. Filters are the left operand, as they are, and the
product is the result, NCHW; a bias, a number a row of it, is one product more: of itself and one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune import SourceKernel, Target, call, workspace

from .. import common
from ..epilogue import Epilogue
from ..products import gemm_bf16x3
from ..products.gemm_bf16x3 import PACK_THREADS, Bf16x3Tiling
from ..products.gemm_shape import Gemm
from .conv2d_shape import Conv2d

# Sums from which on products outweigh what goes before them.
LONG_SUM = 128


def product_of(shape: Conv2d) -> Gemm:
    """Return the product that a convolution is: of filters, and of windows as rows."""
    window = shape.ci * shape.taps
    return Gemm(
        shape.co, shape.oh * shape.ow, window + shape.bias * (4 - window % 4), "float32", shape.n,
        transpose_b=True, shared="a" if shape.n > 1 else "",
        rest=Epilogue(activation=shape.epilogue.activation),
    )  # fmt: skip


def offered(shape: Conv2d, target: Target) -> bool:
    """Return whether windows do not overlap, and a target multiplies them so."""
    plain = Epilogue(shape.bias, activation=shape.epilogue.activation)
    apart = shape.stride[0] >= shape.kh and shape.stride[1] >= shape.kw
    simple = shape.epilogue == plain and shape.groups == 1 and not any(shape.window.padding)
    if not apart or not simple or shape.dilation != (1, 1):
        return False
    long = shape.taps > 1 and shape.ci * shape.taps >= LONG_SUM
    return long and gemm_bf16x3.offered(product_of(shape), target)


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take."""
    return gemm_bf16x3.candidates(product_of(shape))


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return gemm_bf16x3.violation(product_of(shape), choice, target)


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    return gemm_bf16x3.default_choice(product_of(shape), target)


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice of knobs: writing and splitting windows, and the product."""
    product = product_of(shape)
    source, tiling = gemm_bf16x3.kernel(product, choice), Bf16x3Tiling(product, choice)
    filters = "filters" if shape.bias else "weight"
    names = {"a": filters, "b": "windows", "c": "out"}
    last = source.calls[-1]
    calls = [
        call(
            "patches_bf16x3",
            ["data", "weight", *(["bias"] if shape.bias else []), filters, "windows",
             "packed_a", "packed_b", "flags"],
            tiling.a_tiles + tiling.b_tiles, PACK_THREADS,
        ),
        replace(last, args=tuple(names.get(name, name) for name in last.args)),
    ]  # fmt: skip
    window = shape.ci * shape.taps
    sizes = common.defines(
        begins=shape.bias, window=window, a_vec=common.widest(window, product.k),
        b_vec=common.widest(shape.kw, shape.stride[1], shape.w, window, product.k),
        ci=shape.ci, ih=shape.h, iw=shape.w,
        ow=shape.ow, kh=shape.kh, kw=shape.kw, sy=shape.stride[0], sx=shape.stride[1],
    )  # fmt: skip
    rooms = {"windows": shape.n * product.n * product.k}
    rooms |= {"filters": product.m * product.k} if shape.bias else {}
    return replace(
        source,
        name=calls[0].entry,
        source=f"{source.source}\n{common.text('patches_bf16x3.cu')}",
        defines={**source.defines, **sizes},
        calls=calls,
        args=shape.arguments(),
        reference=shape.reference(),
        workspace=[
            *source.workspace,
            *(workspace(name, (size,), "float32") for name, size in rooms.items()),
        ],
    )
