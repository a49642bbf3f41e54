"""Convolutions for `unseen`, of any layout, groups, padding, dilation and type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.rivals import Named, in_both_layouts, picked_anew, set_up
from benchmarks.unseen.layer import PLAIN, After, Arrays, Layer, Way


@dataclass(frozen=True)
class Conv:
    """A convolution; ``co`` is the number of filters, of each channel for a depthwise one."""

    n: int
    h: int
    w: int
    co: int
    ci: int
    size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    layout: str = "NCHW"
    dtype: str = "float32"
    after: After = PLAIN
    depthwise: bool = False

    @property
    def outputs(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        (top, left, bottom, right), (ky, kx) = self.padding, self.size
        y = self.h + top + bottom - (ky - 1) * self.dilation[0] - 1
        x = self.w + left + right - (kx - 1) * self.dilation[1] - 1
        return y // self.stride[0] + 1, x // self.stride[1] + 1

    @property
    def flop(self) -> float:
        """Operations."""
        per = self.size[0] * self.size[1] * (1 if self.depthwise else self.ci // self.groups)
        filters = self.co * (self.ci if self.depthwise else 1)
        return 2.0 * self.n * self.outputs[0] * self.outputs[1] * filters * per

    def sums(self, data: Any, weight: Any, bias: Any = None) -> Any:
        """Return PyTorch's convolution of NCHW images; uneven padding is a copy before it."""
        import torch

        top, left, bottom, right = self.padding
        sides = (top, left)
        if (top, left) != (bottom, right):
            data, sides = torch.nn.functional.pad(data, (left, right, top, bottom)), (0, 0)
        groups = self.ci if self.depthwise else self.groups
        return torch.nn.functional.conv2d(
            data, weight, bias, self.stride, sides, self.dilation, groups
        )

    def nchw(self, arrays: Arrays) -> Arrays:
        """Return the arrays of a kernel as PyTorch sees them: NCHW and OIHW, whatever lies how."""
        data, weight, *rest = arrays
        if self.layout == "NHWC":
            data = data.permute(0, 3, 1, 2)
            weight = weight.permute(2, 3, 0, 1) if self.depthwise else weight.permute(3, 2, 0, 1)
            rest = [each.permute(0, 3, 1, 2) if each.dim() == 4 else each for each in rest]
        if self.depthwise:
            weight = weight.reshape(self.ci * self.co, 1, *self.size)
        return [data, weight, *rest]

    def compute(self, arrays: Arrays) -> Any:
        """Return the layer's result in its layout."""
        data, weight, *rest = self.nchw(arrays)
        out = self.after(self.sums(data, weight), rest, (1, -1, 1, 1))
        return out.permute(0, 2, 3, 1) if self.layout == "NHWC" else out

    def rivals(self, arrays: Arrays) -> Named:
        """Yield PyTorch in both layouts, its bias within the convolution, as cuDNN picks."""
        import torch

        set_up(torch, tf32=self.dtype == "tf32")
        data, weight, *rest = self.nchw(arrays)
        bias = rest.pop(0) if self.after.bias else None
        scaled = After(False, self.after.residual, self.after.affine, self.after.activation)
        images = [i for i, each in enumerate(rest) if each.dim() == 4]
        every = in_both_layouts(data, weight, *(rest[i] for i in images))
        for name, (a, b, *moved) in every:
            other = [moved[images.index(i)] if i in images else r for i, r in enumerate(rest)]
            yield f"PyTorch {name}", picked_anew(partial(self._run, a, b, bias, scaled, other))
            if self.after == After(True, self.after.residual, activation="relu"):
                fused = partial(self._fused, a, b, bias, other)
                yield f"cuDNN fused {name}", picked_anew(fused)

    def _run(self, data: Any, weight: Any, bias: Any, after: After, rest: Arrays) -> Any:
        return after(self.sums(data, weight, bias), rest, (1, -1, 1, 1))

    def _fused(self, data: Any, weight: Any, bias: Any, rest: Arrays) -> Any:
        """Run cuDNN's kernels for a bias, a residual and a ReLU; it has none for all shapes."""
        import torch

        top, left, bottom, right = self.padding
        if (top, left) != (bottom, right):
            raise RuntimeError("cuDNN pads evenly")
        groups = self.ci if self.depthwise else self.groups
        where = (self.stride, (top, left), self.dilation, groups)
        if not rest:
            return torch.cudnn_convolution_relu(data, weight, bias, *where)
        return torch.cudnn_convolution_add_relu(data, weight, rest[0], 1.0, bias, *where)

    def layer(self) -> Layer:
        """Return the layer with the templates that compute it."""
        kind = f"{'depthwise' if self.depthwise else 'conv'} {self.layout} {self.dtype}"
        if self.depthwise:
            ways = self._depthwise()
        else:
            ways = self._nhwc() if self.layout == "NHWC" else self._nchw()
        linear = replace(self, after=self.after.linear)
        tf32 = self.dtype == "tf32"
        return Layer(kind, ways, self.compute, self.rivals, tf32, sums=linear.compute)

    def _depthwise(self) -> tuple[Way, ...]:
        after = (self.after.bias, self.after.activation, self.after.residual, self.after.affine)
        head = (self.n, self.h, self.w, self.ci, self.co, *self.size, self.stride, self.padding)
        return (
            Way("depthwise_conv2d.cuda", (*head, *after, self.dilation, self.layout, self.dtype)),
        )

    def _nhwc(self) -> tuple[Way, ...]:
        after = (self.after.bias, self.after.activation, self.after.residual, self.after.affine)
        head = (self.n, self.h, self.w, self.co, self.ci, *self.size, self.stride, self.padding)
        groups = (self.groups,) if self.groups > 1 else ()
        return (Way("conv2d_nhwc.cuda", (*head, *after, self.dilation, self.dtype, *groups)),)

    def _nchw(self) -> tuple[Way, ...]:
        epilogue = self.after
        relu = epilogue.activation == "relu"
        head = (self.n, self.h, self.w, self.co, self.ci, *self.size, self.stride, self.padding)
        plain = (
            *head, epilogue.bias, relu, epilogue.residual, epilogue.affine, self.dilation,
            self.groups, "none" if relu else epilogue.activation,
        )  # fmt: skip
        ways = [Way("conv2d_nchw.cuda", plain)]
        moves = {*self.stride, *self.dilation, self.groups}
        if self.size == (3, 3) and moves == {1} and min(self.co, self.ci) >= 16:
            tile = 4 if min(self.outputs) > 2 else 2
            args = (self.n, self.h, self.w, self.co, self.ci, tile, self.padding)
            after = (epilogue.bias, epilogue.activation, epilogue.residual, epilogue.affine)
            ways.append(Way("winograd_conv2d.cuda", (*args, *after), tile))
        return tuple(ways)
