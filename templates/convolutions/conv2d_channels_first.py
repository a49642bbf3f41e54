"""Convolutions of NCHW images of 16-bit floats by the tensor-core kernels of other layouts.

Pointwise layers are a product for each image, of the filters and the image as they lie. Others run
as NHWC convolutions between kernels that transpose filters, images and the result, or by
`conv2d_nchw_half`, which reads images as they lie; a space has both. Copies of more than 8
channels are padded to a multiple of 8, as the kernels of NHWC images are faster then. Networks
have no such layers: their images are given the layout NHWC once
(`autotune.graph.passes.image_layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autotune import SourceKernel, Target
from autotune.graph import ops
from autotune.kernel import Argument

from .. import common
from ..common import Array
from ..products.gemm_shape import Gemm
from .conv2d_nhwc import Conv2dNhwc
from .via_conv2d import Copy, Layer

# Channels that fill 16 bytes, and rows and columns of a tile of ``conv2d_channels_first.cu``.
VECTOR, TILE = 8, 64


def padded(shape: Conv2dNhwc) -> Conv2dNhwc:
    """Return the convolution of copies of images and filters: of channels that fill vectors.

    Kernels for few channels or filters read them as they are.
    """
    if shape.groups > 1:
        return shape
    ci, co = (
        extent + -extent % VECTOR if extent > VECTOR else extent for extent in (shape.ci, shape.co)
    )
    return replace(shape, ci=ci, co=co)


def arguments(shape: Conv2dNhwc) -> list[Argument]:
    """Return data, weight and out of the same convolution of NCHW images."""
    orders = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    return [
        replace(one, shape=tuple(one.shape[axis] for axis in order))
        for one, order in zip(shape.arguments(), orders, strict=True)
    ]


def reference(shape: Conv2dNhwc) -> Callable[..., Array]:
    """Return numpy in, numpy out: the reference of NHWC images on views of NCHW ones."""
    of_nhwc = shape.reference()

    def conv2d(data: Array, weight: Array) -> Array:
        images, filters = data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0)
        out: Array = of_nhwc(images, filters).transpose(0, 3, 1, 2)
        return out

    return conv2d


@dataclass(frozen=True)
class Matrices:
    """Transpositions: the template parameters of ``conv2d_channels_first.cu``.

    Attributes:
        count: of matrices.
        rows, columns: that are read, and the elements ``pitch`` of a row.
        written: rows of each result, and the elements ``to`` of one, with zeros beyond those read.
        taps: between which of the rows of the result neighbours are dealt out.
    """

    count: int
    rows: int
    columns: int
    pitch: int
    written: int
    to: int
    taps: int = 1

    @property
    def size(self) -> int:
        """Elements of the results."""
        return self.count * self.written * self.to

    @property
    def blocks(self) -> int:
        """Blocks that write them, a tile each."""
        return self.count * common.ceil_div(self.written, TILE) * common.ceil_div(self.to, TILE)

    @property
    def text(self) -> str:
        """Template arguments."""
        numbers = (self.rows, self.columns, self.pitch, self.written, self.to, self.taps)
        return ", ".join(map(str, numbers))


def matrices_of(plain: Conv2dNhwc, padded: Conv2dNhwc) -> dict[str, Matrices]:
    """Return the transpositions of filters and images NCHW to those that are padded, NHWC."""
    pixels, taps, run = plain.h * plain.w, plain.window.taps, plain.a_run
    channels = padded.a_run * taps
    return {
        "weight": Matrices(1, plain.co, run * taps, run * taps, channels, padded.co, taps),
        "data": Matrices(plain.images, plain.ci, pixels, pixels, pixels, padded.ci),
    }


@dataclass(frozen=True)
class ChannelsFirst(Layer):
    """A convolution of NCHW images as one of NHWC images between transpositions.

    Attributes:
        plain: the convolution of NHWC images that are not padded.
        padded: that of the copies.
        of: the same as the family of kernels takes it.
    """

    op: ops.Conv2d
    plain: Conv2dNhwc
    padded: Conv2dNhwc
    of: Any

    @classmethod
    def between(cls, plain: Conv2dNhwc, padded: Conv2dNhwc, of: Any) -> ChannelsFirst:
        """Return a convolution, given as one of NHWC images."""
        w, shapes = plain.window, [each.shape for each in arguments(plain)]
        op = ops.Conv2d(w.stride, w.padding, w.dilation, plain.groups)
        return cls(op, shapes[0], shapes[1], plain, padded, of)

    @property
    def dtype(self) -> str:
        """Type of all arrays."""
        return self.padded.dtype

    @property
    def conv2d(self) -> Any:
        """The convolution of the copies."""
        return self.of

    @property
    def text(self) -> str:
        """The file of the kernels that copy."""
        return "conv2d_channels_first.cu"

    @property
    def texts(self) -> tuple[str, ...]:
        """This file, and what it is made of."""
        return "store_whole.h", self.text

    @property
    def matrices(self) -> dict[str, Matrices]:
        """The transpositions of all arrays, filters first."""
        results = prod(self.out[2:])
        out = Matrices(
            self.data[0], results, self.plain.co, self.padded.co, self.plain.co, results
        )
        return {**matrices_of(self.plain, self.padded), "out": out}

    @property
    def copies(self) -> list[Copy]:
        """The copies around it; that of the images begins while filters are copied."""
        every = self.matrices
        sizes = {name: each.size for name, each in every.items()}
        sizes["out"] = every["out"].count * every["out"].rows * every["out"].pitch
        return [
            Copy(name, sizes[name], each.blocks, early=name == "data")
            for name, each in every.items()
        ]

    def defines(self) -> Mapping[str, int | str]:
        """Return the parameters of the kernels that copy."""
        return {f"{name.upper()}_MATRICES": each.text for name, each in self.matrices.items()}

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out; sums are in float32."""
        return reference(self.plain)


@dataclass(frozen=True)
class Of:
    """A family of kernels of another view of a convolution of NCHW images.

    Attributes:
        family: of kernels.
        of: the shape that it takes.
    """

    family: Any
    of: Any

    @property
    def ADDED(self) -> dict[str, int]:
        """What choices have of logs that are older than a knob of the family."""
        added: dict[str, int] = getattr(self.family, "ADDED", {})
        return added

    def candidates(self, shape: Conv2dNhwc) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        values: dict[str, list[int]] = self.family.candidates(self.of)
        return values

    def violation(
        self, shape: Conv2dNhwc, choice: Mapping[str, int], target: Target
    ) -> str | None:
        """Return why a choice cannot run or is sure to be slow, or None."""
        reason: str | None = self.family.violation(self.of, choice, target)
        return reason

    def default_choice(self, shape: Conv2dNhwc, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        choice: dict[str, int] = self.family.default_choice(self.of, target)
        return choice

    def kernel(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice of knobs, which take data, weight and out."""
        made: SourceKernel = self.family.kernel(self.of, choice)
        names = {"a": "weight", "b": "data", "c": "out"}
        calls = [
            replace(one, args=tuple(names.get(name, name) for name in one.args))
            for one in made.calls
        ]
        return replace(made, calls=calls, args=arguments(shape), reference=reference(shape))


def product_of(shape: Conv2dNhwc) -> Gemm:
    """Return the products that compute a pointwise layer: the filters by each image."""
    n, pixels = shape.images, shape.h * shape.w
    return Gemm(shape.co, pixels, shape.ci, shape.dtype, n, shared="a" if n > 1 else "")
