"""Winograd convolution for CUDA: 3x3 filters, stride 1, with 2.25 to 4 times fewer products.

F(2x2, 3x3) and F(4x4, 3x3) (Lavin and Gray, "Fast algorithms for convolutional neural networks",
2016), in three steps: the input transform, a batch of matrix products by the kernels of
`gemm_cuda`, whose knobs these are, and the output transform with the epilogue. Filters are
transformed ahead of time, by `transformed_filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np

from autotune import SourceKernel, Target, arg, call, workspace
from autotune.errors import TemplateError
from autotune.kernel import Argument
from autotune.topi.nn.winograd import transform_fractions

from .. import common
from ..common import Array
from ..epilogue import Epilogue
from ..products import gemm_cuda
from ..products.gemm_shape import LARGEST, Gemm
from .window_shape import LAYOUTS, Window

OWNER = "winograd_conv2d"
FILTER = 3
TILES = (2, 4)
# Of the blocks of transforms.
THREADS = 128


@cache
def matrices(tile: int) -> tuple[Array, Array, Array]:
    """Return A, B and G: results are A^T ((G g G^T) * (B^T d B)) A for a filter g."""
    every = transform_fractions(tile, FILTER)
    a, b, g = (np.array([[float(x) for x in row] for row in one]) for one in every)
    return a, b, g


def transformed_filters(weight: Array, tile: int, layout: str = "NCHW") -> Array:
    """Return filters as the kernels take them: [alpha, alpha, co, ci], of NHWC [.., ci, co].

    Args:
        weight: (co, ci, 3, 3), whatever the layout of the images.
        tile: 2 or 4; alpha is two more.
    """
    _, _, g = matrices(tile)
    order = "xyoi" if layout == "NCHW" else "xyio"
    wide = np.einsum(f"xr,ys,oirs->{order}", g, g, weight.astype(np.float64), optimize=True)
    return np.ascontiguousarray(wide.astype(weight.dtype))


@dataclass(frozen=True)
class Winograd:
    """A convolution by 3x3 filters, with stride 1, float32.

    Attributes:
        tile: outputs of a tile are ``tile`` by ``tile`` pixels: 2 or 4.
        padding: (top, left, bottom, right).
    """

    images: int
    h: int
    w: int
    co: int
    ci: int
    tile: int = 4
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    layout: str = "NCHW"
    epilogue: Epilogue = field(default_factory=Epilogue)

    def __post_init__(self) -> None:
        if min(self.images, self.h, self.w, self.co, self.ci) < 1:
            raise TemplateError(f"{OWNER}: extents must be at least 1, got {self}")
        if self.tile not in TILES or self.layout not in LAYOUTS:
            raise TemplateError(
                f"{OWNER}: tile must be 2 or 4 and layout NCHW or NHWC, "
                f"got {self.tile!r} and {self.layout!r}"
            )
        self.window.check(OWNER, self.h, self.w)
        elements = self.tiles * max(self.ci, self.co)
        if self.tiles > LARGEST or elements > THREADS * LARGEST:
            raise TemplateError(
                f"{OWNER}: kernels index up to {LARGEST} tiles, and {THREADS} times as many of "
                f"their channels, got {self}"
            )

    @cached_property
    def alone(self) -> Winograd:
        """The convolution without epilogue, whose products are the same."""
        return replace(self, epilogue=Epilogue())

    @property
    def window(self) -> Window:
        """Filter extents and padding."""
        return Window((FILTER, FILTER), padding=self.padding)

    @cached_property
    def results(self) -> tuple[int, int]:
        """Output rows and columns."""
        return self.window.results(self.h, self.w)

    @property
    def alpha(self) -> int:
        """Rows of an input tile."""
        return self.tile + FILTER - 1

    @cached_property
    def tile_counts(self) -> tuple[int, int]:
        """Tiles down and across an image."""
        oh, ow = self.results
        return common.ceil_div(oh, self.tile), common.ceil_div(ow, self.tile)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.images * self.tile_counts[0] * self.tile_counts[1]

    @cached_property
    def product(self) -> Gemm:
        """The products between the transforms, one for each element of a tile."""
        m, n = (self.co, self.tiles) if self.layout == "NCHW" else (self.tiles, self.co)
        return Gemm(m, n, self.ci, batch=self.alpha**2)

    @property
    def outputs(self) -> int:
        """Elements of the output."""
        return self.images * self.co * self.results[0] * self.results[1]

    @property
    def flop(self) -> int:
        """Multiplications and additions of the convolution itself, done or saved."""
        return 2 * self.outputs * self.ci * FILTER**2

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(a.bytes for a in self.arguments())

    def arguments(self) -> list[Argument]:
        """Return data, transformed weight, operands of the epilogue, and out."""
        nchw, (oh, ow) = self.layout == "NCHW", self.results
        data = (self.ci, self.h, self.w) if nchw else (self.h, self.w, self.ci)
        out = (self.co, oh, ow) if nchw else (oh, ow, self.co)
        filters = (self.co, self.ci) if nchw else (self.ci, self.co)
        result = (self.images, *out)
        return [
            arg("data", (self.images, *data)),
            arg("weight", (self.alpha, self.alpha, *filters)),
            *self.epilogue.arguments(self.co, result),
            *self.epilogue.results(result),
            arg("out", result, role="out"),
        ]

    def reference(self) -> Callable[..., Array | tuple[Array, Array]]:
        """Return numpy in, numpy out: the arguments but for the last."""

        def convolved(data: Array, weight: Array, *others: Array) -> Array | tuple[Array, Array]:
            nchw = self.layout == "NCHW"
            a, b, _ = (one.astype(data.dtype) for one in matrices(self.tile))
            patches = self._patches(data if nchw else data.transpose(0, 3, 1, 2))
            filters = weight if nchw else weight.swapaxes(2, 3)
            moved = np.einsum("rx,sy,niturs->xyintu", b, b, patches, optimize=True)
            shape = moved.shape
            sums = filters @ moved.reshape(*shape[:3], -1)
            sums = sums.reshape(*shape[:2], self.co, *shape[3:])
            tiles = np.einsum("xp,yq,xyontu->notpuq", a, a, sums, optimize=True)
            (oh, ow), (down, across) = self.results, self.tile_counts
            out = tiles.reshape(self.images, self.co, down * self.tile, across * self.tile)
            out = out[:, :, :oh, :ow]
            out = out if nchw else out.transpose(0, 2, 3, 1)
            kept, done = self.epilogue.both(out, others, 1 if nchw else 3)
            done = np.ascontiguousarray(done)
            return (np.ascontiguousarray(kept), done) if self.epilogue.kept else done

        return convolved

    def _patches(self, images: Array) -> Array:
        """Return all input tiles of NCHW images: [image, channel, down, across, row, column]."""
        top, left, _, _ = self.padding
        down, across = self.tile_counts
        rows, columns = (n * self.tile + FILTER - 1 for n in (down, across))
        padded = np.zeros((self.images, self.ci, rows, columns), images.dtype)
        within = padded[:, :, top : top + self.h, left : left + self.w]
        within[...] = images[:, :, : within.shape[2], : within.shape[3]]
        extents = (self.alpha, self.alpha)
        windows = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=(2, 3))
        return np.asarray(windows[:, :, :: self.tile, :: self.tile])


def candidates(shape: Winograd) -> dict[str, list[int]]:
    """Return the values each knob may take: those of the products."""
    return gemm_cuda.candidates(shape.product)


def violation(shape: Winograd, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return gemm_cuda.violation(shape.product, choice, target)


def default_choice(shape: Winograd, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    return gemm_cuda.default_choice(shape.product, target, convolution=True)


def kernel(shape: Winograd, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice: transform, products, transform."""
    source, nchw = gemm_cuda.kernel(shape.product, choice), shape.layout == "NCHW"
    names = {"a": "weight", "b": "tiles"} if nchw else {"a": "tiles", "b": "weight"}
    names |= {"c": "products"}
    inputs, outputs = shape.tiles * shape.ci, shape.tiles * shape.co
    operands, blocks = shape.epilogue.names("data"), common.ceil_div(outputs, THREADS)
    calls = [
        call("winograd_in", ["data", "tiles"], common.ceil_div(inputs, THREADS), THREADS),
        *(replace(one, args=tuple(names.get(n, n) for n in one.args)) for one in source.calls),
        call("winograd_out", ["products", *operands, "out"], blocks, THREADS),
    ]
    buffers = [
        workspace("tiles", (shape.alpha**2, inputs)),
        workspace("products", (shape.alpha**2, outputs)),
    ]
    defines = _defines(shape)
    before = [common.text(name) for name in common.activation_texts(defines)]
    return replace(
        source,
        name="winograd_in",
        source="\n".join([*before, str(source.source), common.text("winograd.cu")]),
        args=shape.arguments(),
        defines={**source.defines, **defines},
        calls=calls,
        workspace=[*source.workspace, *buffers],
        reference=shape.reference(),
    )


def _defines(shape: Winograd) -> dict[str, int | str]:
    """Return the parameters of the transforms."""
    a, b, _ = matrices(shape.tile)
    (oh, ow), (down, across) = shape.results, shape.tile_counts
    return {
        **common.defines(
            images=shape.images, ih=shape.h, iw=shape.w, oh=oh, ow=ow, ci=shape.ci, co=shape.co,
            py=shape.padding[0], px=shape.padding[1], out_tile=shape.tile, in_tile=shape.alpha,
            tiles_y=down, tiles_x=across, nhwc=shape.layout == "NHWC", **shape.epilogue.defines(),
        ),
        **shape.epilogue.texts(),
        "DATA_MATRIX": _c_array(b),
        "OUT_MATRIX": _c_array(a),
    }  # fmt: skip


def _c_array(matrix: Array) -> str:
    rows = (", ".join(f"{value!r}f" for value in row) for row in matrix.tolist())
    return "{" + ", ".join(f"{{{row}}}" for row in rows) + "}"
