"""Convolutions of NHWC images as implicit GEMM, and their reference.

Row m of the left operand is the im2col row of output pixel m. It is never materialised, but
gathered while tiles are staged (Chetlur et al., cuDNN, 2014). Filters (kh, kw, ci, co) are the
right operand and the NHWC result is the product, so the kernels of products compute convolutions
with their epilogues: in float32 those of `gemm_cuda`, of 16-bit floats, and of floats as TF32,
those of `gemm_mma`, and on Hopper, of 16-bit floats, those of `gemm_wgmma` and `gemm_tma`, with
input and output channels in multiples of 8, or on copies (`conv2d_padded`). Groups are a batch of
products whose rows are interleaved, which `gemm_wgmma` does not take, or columns of one product
(`AcrossGroups`). Pointwise layers without padding or stride are plain products, and have all
kernels of `gemm.cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from ..common import Array, defines
from ..epilogue import Epilogue
from ..products.gemm_shape import HALVES, LARGEST, TF32, Gemm, as_tf32, stored
from .window_shape import Window

OWNER = "conv2d_nhwc"
# Bytes of a row that TMA loads.
PANEL_BYTES = 128


@dataclass(frozen=True)
class Conv2dNhwc:
    """A convolution of ``images`` images of h x w pixels of ``ci`` channels by ``co`` filters.

    Attributes:
        groups: of channels: a batch of as many products, whose rows are interleaved.
        transpose_b: whether kernels read a transposed copy of the filters, (co, kh, kw, ci).
    """

    images: int
    h: int
    w: int
    co: int
    ci: int
    window: Window
    dtype: str = "float32"
    epilogue: Epilogue = field(default_factory=Epilogue)
    groups: int = 1
    transpose_a: bool = False
    transpose_b: bool = False

    def __post_init__(self) -> None:
        if min(self.images, self.h, self.w, self.co, self.ci, self.groups) < 1:
            raise TemplateError(f"{OWNER}: extents must be at least 1, got {self}")
        if self.co % self.groups or self.ci % self.groups:
            raise TemplateError(f"{OWNER}: groups must divide co and ci, got {self}")
        self.window.check(OWNER, self.h, self.w)
        if max(self.m, self.n, self.k) > LARGEST:
            raise TemplateError(f"{OWNER}: kernels index by 32 bits, got {self}")

    @property
    def m(self) -> int:
        """Output pixels."""
        oh, ow = self.window.results(self.h, self.w)
        return self.images * oh * ow

    @property
    def n(self) -> int:
        """Output channels of a group."""
        return self.co // self.groups

    @property
    def k(self) -> int:
        """Elements of an im2col row of a group."""
        return self.window.taps * self.a_run

    @property
    def batch(self) -> int:
        """Products, one for each group."""
        return self.groups

    @property
    def gathers(self) -> bool:
        """Rows of the left operand are gathered (implicit im2col)."""
        return True

    @property
    def b_apart(self) -> bool:
        """Whether neighbours along a row of filters lie apart in memory."""
        return False

    @property
    def exact(self) -> bool:
        """Whether zeros beside a tap's channels times anything are zeros: not of floats."""
        return False

    @cached_property
    def pointwise(self) -> Gemm | None:
        """The plain product that computes a pointwise layer with stride 1, else None."""
        w = self.window
        alone = w.taps == 1 and w.stride == (1, 1) and not any(w.padding) and self.groups == 1
        return Gemm(self.m, self.n, self.k, self.dtype, epilogue=self.epilogue) if alone else None

    @property
    def a_run(self) -> int:
        """Contiguous elements of the left operand: the channels of a group."""
        return self.ci // self.groups

    @property
    def b_run(self) -> int:
        """Contiguous elements of the right operand: output channels, or K in a transposed copy."""
        return self.k if self.transpose_b else self.n

    @property
    def flop(self) -> int:
        """Multiplications and additions of the convolution itself."""
        return 2 * self.m * self.co * self.k

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(a.bytes for a in self.arguments())

    def arguments(self) -> list[Argument]:
        """Return data, weight, those of bias, residual, scale and shift asked for, and out."""
        result = (self.images, *self.window.results(self.h, self.w), self.co)
        kind = stored(self.dtype)
        return [
            arg("data", (self.images, self.h, self.w, self.ci), kind),
            arg("weight", (*self.window.size, self.a_run, self.co), kind),
            *self.epilogue.arguments(self.co, result, kind),
            arg("out", result, kind, role="out"),
        ]

    def operands(self) -> dict[str, int | str]:
        """Return what ``operands.h`` is parameterised by."""
        w, (oh, ow) = self.window, self.window.results(self.h, self.w)
        return {
            **defines(
                batch=self.batch, transpose_a=False, transpose_b=self.transpose_b,
                a_stride=self.a_run, b_stride=self.n, conv=1, follows=self.epilogue != Epilogue(),
                ih=self.h, iw=self.w, oh=oh, ow=ow, ci=self.ci, group_ci=self.a_run,
                **({"grouped": 1} if self.groups > 1 else {}),
                kw=w.size[1], sy=w.stride[0], sx=w.stride[1], py=w.padding[0], px=w.padding[1],
                dy=w.dilation[0], dx=w.dilation[1],
            ),
            **defines(**self.epilogue.defines()),
            **self.epilogue.texts(self.dtype),
        }  # fmt: skip

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out: the arguments but for the last; sums are in float32."""

        def conv2d(data: Array, weight: Array, *others: Array) -> Array:
            kind = np.float64 if data.dtype == np.float64 else np.float32
            images, filters = data.astype(kind).transpose(0, 3, 1, 2), weight.astype(kind)
            if self.dtype == TF32:
                images, filters = as_tf32(images), as_tf32(filters)
            sums = np.zeros((self.images, *self.window.results(self.h, self.w), self.co), kind)
            for ky, kx, taps in self.window.views(images, 0.0):
                parts = np.split(taps.transpose(0, 2, 3, 1), self.groups, axis=3)
                by = np.split(filters[ky, kx], self.groups, axis=1)
                every = [part @ weight for part, weight in zip(parts, by, strict=True)]
                # Not in place: arrays that carry bounds of errors take the place of zeros.
                sums = sums + np.concatenate(every, axis=3)
            operands = tuple(each.astype(kind) for each in others)
            return self.epilogue.apply(sums, operands, 3).astype(data.dtype)

        return conv2d


@dataclass(frozen=True)
class AcrossGroups(Conv2dNhwc):
    """A convolution in groups as one product, whose columns are the output channels of all.

    A tile's columns are of one group, and its rows have that group's channels; or of `joined`
    groups, whose channels fill 128 bytes together, and each instruction multiplies those of one.
    Where channels are no multiple of 128 bytes, those of the next group are set to zero before.
    Only `gemm_tma` multiplies it.
    """

    @classmethod
    def of(cls, shape: Conv2dNhwc) -> AcrossGroups:
        """Return a convolution as such a product."""
        return cls(**{each.name: getattr(shape, each.name) for each in fields(shape)})

    @property
    def n(self) -> int:
        """Output channels of all groups."""
        return self.co

    @property
    def batch(self) -> int:
        """One product."""
        return 1

    @property
    def panel(self) -> int:
        """Elements of 128 bytes."""
        return PANEL_BYTES // (2 if self.dtype in HALVES else 4)

    @property
    def filters(self) -> int:
        """Output channels of a group."""
        return self.co // self.groups

    @property
    def joined(self) -> int:
        """Groups whose channels fill 128 bytes together, and whose filters do not exceed these.

        An instruction multiplies 16 channels, of 16-bit floats.
        """
        several = {16: 4, 32: 2}.get(self.a_run, 1) if self.dtype in HALVES else 1
        fits = self.groups % several == 0 and several * self.filters <= self.panel
        return several if fits else 1

    def operands(self) -> dict[str, int | str]:
        """Return what ``operands.h`` is parameterised by, and the columns of a group."""
        given = super().operands()
        del given["GROUPED"]
        joined = {"JOINED": self.joined} if self.joined > 1 else {}
        return given | {"GROUP_CO": self.filters, **joined}
