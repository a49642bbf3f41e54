"""The source templates of windows over images, registered: depthwise convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import SourceKernel, template

from . import window_cuda
from .epilogue import Epilogue
from .source import tunable
from .window_shape import Depthwise, Pool, Window, four, two

Extents = int | Sequence[int]


@template("depthwise_conv2d.cuda")
def depthwise_conv2d_cuda(
    n: int, h: int, w: int, channels: int, multiplier: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0, bias: bool = False, activation: str = "none",
    residual: bool = False, affine: bool = False, dilation: Extents = 1, layout: str = "NCHW",
) -> SourceKernel:  # fmt: skip
    """Convolve each channel of ``n`` images by ``multiplier`` filters kh x kw of its own, float32.

    The function takes data, weight, those of bias, residual, scale and shift that are asked for
    (`Epilogue`), and out. Filters are (channels, multiplier, kh, kw) where the layout is
    ``"NCHW"``, (kh, kw, channels, multiplier) where it is ``"NHWC"``.

    Args:
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        activation: ``"none"``, ``"relu"``, ``"relu6"``, ``"silu"`` or ``"gelu"``.
    """
    owner = Depthwise.owner
    window = Window((kh, kw), two(owner, stride), four(owner, padding), two(owner, dilation))
    rest = Epilogue(bias, residual, affine, activation)
    return tunable(
        window_cuda, Depthwise(n, h, w, channels, window, layout, multiplier, rest), "cuda"
    )


@template("pool2d.cuda")
def pool2d_cuda(
    kind: str, n: int, h: int, w: int, channels: int, size: Extents,
    stride: Extents = 1, padding: Extents = 0, dilation: Extents = 1,
    count_padding: bool = False, layout: str = "NCHW",
) -> SourceKernel:  # fmt: skip
    """Return the maximum (``kind="max"``) or average (``"avg"``) of windows of float32 images.

    Args:
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        count_padding: whether an average divides by all elements of a window, not only by those
            that lie in the image.
    """
    owner = Pool.owner
    window = Window(
        two(owner, size), two(owner, stride), four(owner, padding), two(owner, dilation)
    )
    shape = Pool(n, h, w, channels, window, layout, kind, count_padding)
    return tunable(window_cuda, shape, "cuda")
