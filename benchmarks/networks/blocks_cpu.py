"""Blocks of well-known networks on a CPU against PyTorch: whether they are right, and their times.

    OMP_NUM_THREADS=1 python -m benchmarks.networks.blocks_cpu                  # all, one thread
    OMP_NUM_THREADS=2 python -m benchmarks.networks.blocks_cpu --only shuffle --report

Each block is written once and built twice, as in `transformers`: as a graph of ours, as importers
write it (hard-swish as arithmetic, norms over channels between transposes), and of PyTorch's
functions. Parameters are drawn; errors are 2-norms of differences to PyTorch in float64. Times are
least CPU times of one thread, and medians of wall time of several, in turns with PyTorch eager in
both layouts and compiled (`torch.compile`, which needs a C++ compiler; weights frozen).
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.graph import Constant, Graph, TensorType, Value, Variable, apply, ops
from autotune.network import compile_network, report
from benchmarks.networks.torch_inductor import compiled


class Writer(ABC):
    """The operators that a block is written with; images are NCHW.

    Args:
        seed: of the parameters, which are drawn in the order in which they are asked for.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)

    def drawn(self, *shape: int, around: float = 0.0) -> np.ndarray[Any, Any]:
        """Return numbers of which products with numbers near 1 are near 1."""
        depth = math.prod(shape[1:]) if len(shape) > 1 else 16
        numbers = self._random.standard_normal(shape) * depth**-0.5 + around
        return numbers.astype("float32")

    @abstractmethod
    def conv(
        self, x: Any, filters: int, size: int = 1, stride: int = 1, groups: int = 1, hole: int = 1
    ) -> Any:
        """Convolve with a bias, so that an image of stride 1 keeps its size."""

    @abstractmethod
    def unary(self, x: Any, name: str) -> Any:
        """Apply an activation."""

    @abstractmethod
    def add(self, x: Any, y: Any) -> Any:
        """Add."""

    @abstractmethod
    def multiply(self, x: Any, y: Any) -> Any:
        """Multiply."""

    @abstractmethod
    def scaled(self, x: Any) -> Any:
        """Multiply rows, or channels, by drawn numbers."""

    @abstractmethod
    def mean(self, x: Any) -> Any:
        """Return the mean of each channel, as an image of one pixel."""

    @abstractmethod
    def norm_channels(self, x: Any) -> Any:
        """Normalise the channels of each pixel."""

    @abstractmethod
    def shuffle(self, x: Any, groups: int) -> Any:
        """Deal channels of groups."""

    @abstractmethod
    def halves(self, x: Any) -> tuple[Any, Any]:
        """Return two halves of the channels."""

    @abstractmethod
    def joined(self, *parts: Any) -> Any:
        """Join channels."""

    @abstractmethod
    def upsampled(self, x: Any) -> Any:
        """Repeat each pixel twice in both directions."""

    @abstractmethod
    def spread(self, x: Any, filters: int, size: int) -> Any:
        """Convolve transposed, with stride 2, so that an image is twice as large."""

    @abstractmethod
    def pool(self, x: Any, size: int, stride: int) -> Any:
        """Take maxima of windows."""

    @abstractmethod
    def linear(self, x: Any, width: int) -> Any:
        """Multiply rows by drawn weights, and add a bias."""

    @abstractmethod
    def norm(self, x: Any) -> Any:
        """Normalise rows."""

    @abstractmethod
    def attention(self, x: Any, heads: int, causal: bool) -> Any:
        """Attend to the rows of one input, without the product that follows."""


class Ours(Writer):
    """Writes graphs."""

    def _of(self, *shape: int, around: float = 0.0) -> Value:
        return Constant.of(self.drawn(*shape, around=around))

    def conv(
        self,
        x: Value,
        filters: int,
        size: int = 1,
        stride: int = 1,
        groups: int = 1,
        hole: int = 1,
    ) -> Value:
        """Apply the operator."""
        weight = self._of(filters, x.shape[1] // groups, size, size)
        around = (size - 1) // 2 * hole
        op = ops.Conv2d((stride, stride), (around, around), (hole, hole), groups)
        return apply(ops.BiasAdd(), apply(op, x, weight), self._of(filters))

    def unary(self, x: Value, name: str) -> Value:
        """Write it as importers do."""
        if name in ("hardsigmoid", "hardswish"):
            shifted = apply(ops.Add(), x, Constant.of(3.0, dtype="float32"))
            gate = apply(ops.Clip(0.0, 6.0), shifted)
            gate = apply(ops.Multiply(), gate, Constant.of(1 / 6, dtype="float32"))
            return gate if name == "hardsigmoid" else apply(ops.Multiply(), x, gate)
        if name == "silu":
            return apply(ops.Multiply(), x, apply(ops.Sigmoid(), x))
        return apply({"relu": ops.Relu, "sigmoid": ops.Sigmoid, "gelu": ops.Gelu}[name](), x)

    def add(self, x: Value, y: Value) -> Value:
        """Apply the operator."""
        return apply(ops.Add(), x, y)

    def multiply(self, x: Value, y: Value) -> Value:
        """Apply the operator."""
        return apply(ops.Multiply(), x, y)

    def scaled(self, x: Value) -> Value:
        """Multiply by a constant."""
        return apply(ops.Multiply(), x, self._of(x.shape[-1], around=1.0))

    def mean(self, x: Value) -> Value:
        """Apply the operator."""
        return apply(ops.GlobalAvgPool2d(), x)

    def norm_channels(self, x: Value) -> Value:
        """Put channels last."""
        last = apply(ops.Transpose((0, 2, 3, 1)), x)
        return apply(ops.Transpose((0, 3, 1, 2)), self.norm(last))

    def shuffle(self, x: Value, groups: int) -> Value:
        """Transpose groups and channels."""
        n, c, h, w = x.shape
        apart = apply(ops.Reshape((n, groups, c // groups, h, w)), x)
        return apply(ops.Reshape((n, c, h, w)), apply(ops.Transpose((0, 2, 1, 3, 4)), apart))

    def halves(self, x: Value) -> tuple[Value, Value]:
        """Cut."""
        n, c, h, w = x.shape
        begins = ((0, c // 2), (c // 2, c))
        first, second = (apply(ops.StridedSlice((0, b, 0, 0), (n, e, h, w)), x) for b, e in begins)
        return first, second

    def joined(self, *parts: Value) -> Value:
        """Apply the operator."""
        return apply(ops.Concatenate(1), *parts)

    def upsampled(self, x: Value) -> Value:
        """Apply the operator."""
        return apply(ops.Upsampling(2), x)

    def spread(self, x: Value, filters: int, size: int) -> Value:
        """Apply the operator."""
        weight, around = self._of(x.shape[1], filters, size, size), (size - 2) // 2
        op = ops.Conv2dTranspose((2, 2), (around, around), (0, 0))
        return apply(ops.BiasAdd(), apply(op, x, weight), self._of(filters))

    def pool(self, x: Value, size: int, stride: int) -> Value:
        """Apply the operator."""
        around = size // 2
        return apply(ops.MaxPool2d((size, size), (stride, stride), (around, around)), x)

    def linear(self, x: Value, width: int) -> Value:
        """Multiply and add."""
        weights, bias = self._of(width, x.shape[1]), self._of(width)
        return apply(ops.Add(), apply(ops.Dense(), x, weights), bias)

    def norm(self, x: Value) -> Value:
        """Apply the operator."""
        width = x.shape[-1]
        return apply(ops.LayerNorm(), x, self._of(width, around=1.0), self._of(width))

    def attention(self, x: Value, heads: int, causal: bool) -> Value:
        """Multiply three times, and take heads apart."""
        rows, width = x.shape
        apart = ops.Reshape((1, rows, heads, width // heads))
        turned = ops.Transpose((0, 2, 1, 3))
        parts = [apply(turned, apply(apart, self.linear(x, width))) for _ in range(3)]
        seen = apply(ops.Attention(causal=causal), *parts)
        return apply(ops.Reshape((rows, width)), apply(turned, seen))


class Torch(Writer):
    """Writes PyTorch's functions.

    Args:
        torch: the module.
        dtype: of all numbers.
        last: whether images and filters lie in memory as NHWC.
    """

    def __init__(self, torch: Any, dtype: Any, last: bool, seed: int = 0) -> None:
        super().__init__(seed)
        self._torch, self._f, self._dtype, self._last = torch, torch.nn.functional, dtype, last
        # Parameters are made by the first run, and met in the same order by all.
        self.made: list[Any] = []
        self._met = 0

    def begin(self) -> None:
        """Begin another run."""
        self._met = 0

    def tensor(self, array: np.ndarray[Any, Any]) -> Any:
        """Return numbers as a tensor."""
        made = self._torch.from_numpy(np.array(array)).to(self._dtype)
        if self._last and made.ndim == 4:
            made = made.to(memory_format=self._torch.channels_last)
        return made

    def _of(self, *shape: int, around: float = 0.0) -> Any:
        if self._met == len(self.made):
            self.made.append(self.tensor(self.drawn(*shape, around=around)))
        self._met += 1
        return self.made[self._met - 1]

    def conv(
        self, x: Any, filters: int, size: int = 1, stride: int = 1, groups: int = 1, hole: int = 1
    ) -> Any:
        """Call the function."""
        weight, bias = self._of(filters, x.shape[1] // groups, size, size), self._of(filters)
        return self._f.conv2d(x, weight, bias, stride, (size - 1) // 2 * hole, hole, groups)

    def unary(self, x: Any, name: str) -> Any:
        """Call the function."""
        return self._torch.sigmoid(x) if name == "sigmoid" else getattr(self._f, name)(x)

    def add(self, x: Any, y: Any) -> Any:
        """Add."""
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        """Multiply."""
        return x * y

    def scaled(self, x: Any) -> Any:
        """Multiply by a parameter."""
        return x * self._of(x.shape[-1], around=1.0)

    def mean(self, x: Any) -> Any:
        """Call the function."""
        return x.mean((2, 3), keepdim=True)

    def norm_channels(self, x: Any) -> Any:
        """Put channels last."""
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def shuffle(self, x: Any, groups: int) -> Any:
        """Call the function."""
        return self._f.channel_shuffle(x, groups)

    def halves(self, x: Any) -> tuple[Any, Any]:
        """Cut."""
        first, second = x.chunk(2, 1)
        return first, second

    def joined(self, *parts: Any) -> Any:
        """Call the function."""
        return self._torch.cat(parts, 1)

    def upsampled(self, x: Any) -> Any:
        """Call the function."""
        return self._f.interpolate(x, scale_factor=2, mode="nearest")

    def spread(self, x: Any, filters: int, size: int) -> Any:
        """Call the function."""
        weight, bias = self._of(x.shape[1], filters, size, size), self._of(filters)
        return self._f.conv_transpose2d(x, weight, bias, 2, (size - 2) // 2)

    def pool(self, x: Any, size: int, stride: int) -> Any:
        """Call the function."""
        return self._f.max_pool2d(x, size, stride, size // 2)

    def linear(self, x: Any, width: int) -> Any:
        """Call the function."""
        weights, bias = self._of(width, x.shape[1]), self._of(width)
        return self._f.linear(x, weights, bias)

    def norm(self, x: Any) -> Any:
        """Call the function."""
        width = x.shape[-1]
        gamma, beta = self._of(width, around=1.0), self._of(width)
        return self._f.layer_norm(x, (width,), gamma, beta, 1e-5)

    def attention(self, x: Any, heads: int, causal: bool) -> Any:
        """Multiply three times; heads are views."""
        rows, width = x.shape
        parts = [self.linear(x, width).view(1, rows, heads, -1).transpose(1, 2) for _ in range(3)]
        seen = self._f.scaled_dot_product_attention(*parts, is_causal=causal)
        return seen.transpose(1, 2).reshape(rows, width)


def _inverted(
    w: Writer, x: Any, wide: int, size: int, stride: int, out: int, squeezed: int, name: str
) -> Any:
    """An inverted residual, as in MobileNet-V3 and EfficientNet, of an activation."""
    y = w.unary(w.conv(x, wide), name)
    y = w.unary(w.conv(y, wide, size, stride, wide), name)
    if squeezed:
        inner, gate = ("relu", "hardsigmoid") if name != "silu" else ("silu", "sigmoid")
        part = w.unary(w.conv(w.mean(y), squeezed), inner)
        y = w.multiply(y, w.unary(w.conv(part, wide), gate))
    y = w.conv(y, out)
    return w.add(x, y) if stride == 1 and out == x.shape[1] else y


def _convnext(w: Writer, x: Any) -> Any:
    """A block of ConvNeXt, its wide part in rows."""
    c = x.shape[1]
    y = w.norm_channels(w.conv(x, c, 7, 1, c))
    return w.add(x, w.conv(w.unary(w.conv(y, 4 * c), "gelu"), c))


def _transformer(w: Writer, x: Any, heads: int, causal: bool) -> Any:
    """A block of a transformer, with norms first."""
    width = x.shape[1]
    x = w.add(x, w.linear(w.attention(w.norm(x), heads, causal), width))
    return w.add(x, w.linear(w.unary(w.linear(w.norm(x), 4 * width), "gelu"), width))


def _shuffle_v1(w: Writer, x: Any) -> Any:
    """A unit of ShuffleNet of three groups."""
    c = x.shape[1]
    y = w.shuffle(w.unary(w.conv(x, c // 4, groups=3), "relu"), 3)
    y = w.conv(w.conv(y, c // 4, 3, 1, c // 4), c, groups=3)
    return w.unary(w.add(x, y), "relu")


def _shuffle_v2(w: Writer, x: Any) -> Any:
    """A unit of ShuffleNet-V2."""
    first, second = w.halves(x)
    c = second.shape[1]
    y = w.conv(w.unary(w.conv(second, c), "relu"), c, 3, 1, c)
    return w.shuffle(w.joined(first, w.unary(w.conv(y, c), "relu")), 2)


def _resnext(w: Writer, x: Any, groups: int, width: int) -> Any:
    """A bottleneck of ResNeXt."""
    y = w.unary(w.conv(x, width), "relu")
    y = w.unary(w.conv(y, width, 3, groups=groups), "relu")
    return w.unary(w.add(x, w.conv(y, x.shape[1])), "relu")


def _decoder(w: Writer, x: Any) -> Any:
    """A step of a decoder that repeats pixels."""
    y = w.conv(w.upsampled(x), x.shape[1] // 2, 3)
    return w.unary(y, "relu")


def _spread(w: Writer, x: Any, size: int) -> Any:
    return w.unary(w.spread(x, x.shape[1] // 2, size), "relu")


def _dilated(w: Writer, x: Any, hole: int) -> Any:
    return w.unary(w.conv(x, x.shape[1], 3, hole=hole), "relu")


def _head(w: Writer, x: Any, *widths: int) -> Any:
    """Layers of one row."""
    for width in widths[:-1]:
        x = w.unary(w.linear(x, width), "relu")
    return w.linear(x, widths[-1])


Block = tuple[tuple[int, ...], Callable[[Writer, Any], Any]]


def _images(channels: int, size: int) -> tuple[int, ...]:
    return 1, channels, size, size


BLOCKS: dict[str, Block] = {
    "mobilenet-v3 40 k5 on 28": (
        _images(40, 28), lambda w, x: _inverted(w, x, 120, 5, 1, 40, 32, "relu")),
    "mobilenet-v3 80 k3 on 14": (
        _images(80, 14), lambda w, x: _inverted(w, x, 200, 3, 1, 80, 0, "hardswish")),
    "mobilenet-v3 112 k5 on 14": (
        _images(112, 14), lambda w, x: _inverted(w, x, 672, 5, 1, 112, 168, "hardswish")),
    "mobilenet-v3 24 k3 on 56": (
        _images(24, 56), lambda w, x: _inverted(w, x, 72, 3, 1, 24, 0, "hardswish")),
    "efficientnet 24 k3 on 56": (
        _images(24, 56), lambda w, x: _inverted(w, x, 144, 3, 1, 24, 6, "silu")),
    "efficientnet 80 k5 on 14": (
        _images(80, 14), lambda w, x: _inverted(w, x, 480, 5, 1, 80, 20, "silu")),
    "efficientnet 16 k3 on 112, stride 2": (
        _images(16, 112), lambda w, x: _inverted(w, x, 96, 3, 2, 24, 4, "silu")),
    "convnext 96 on 56": (_images(96, 56), _convnext),
    "convnext 384 on 14": (_images(384, 14), _convnext),
    "vit-s 197x384": ((197, 384), lambda w, x: _transformer(w, x, 6, False)),
    "vit-b 197x768": ((197, 768), lambda w, x: _transformer(w, x, 12, False)),
    "bert 128x768": ((128, 768), lambda w, x: _transformer(w, x, 12, False)),
    "gpt-2 256x768, causal": ((256, 768), lambda w, x: _transformer(w, x, 12, True)),
    "shufflenet 240 on 28": (_images(240, 28), _shuffle_v1),
    "shufflenet-v2 116 on 28": (_images(116, 28), _shuffle_v2),
    "resnext 256 on 56, 32 groups": (_images(256, 56), lambda w, x: _resnext(w, x, 32, 128)),
    "resnext 1024 on 14, 32 groups": (_images(1024, 14), lambda w, x: _resnext(w, x, 32, 512)),
    "decoder 128 on 28": (_images(128, 28), _decoder),
    "transposed 128 k2 on 28": (_images(128, 28), lambda w, x: _spread(w, x, 2)),
    "transposed 256 k4 on 16": (_images(256, 16), lambda w, x: _spread(w, x, 4)),
    "dilated 256 k3 on 28": (_images(256, 28), lambda w, x: _dilated(w, x, 2)),
    "vgg head 1x25088": ((1, 25088), lambda w, x: _head(w, x, 4096, 1000)),
    "head 1x1280": ((1, 1280), lambda w, x: _head(w, x, 1000)),
    "head 3x512": ((3, 512), lambda w, x: _head(w, x, 2048, 512)),
}  # fmt: skip


def _frozen(torch: Any, writer: Torch, block: Block, x: Any) -> Callable[[], Any]:
    """Return the block compiled by PyTorch."""

    def run(x: Any) -> Any:
        writer.begin()
        return block[1](writer, x)

    return compiled(torch, run, x)


def _rivals(torch: Any, block: Block, data: Any, compiles: bool) -> dict[str, Callable[[], Any]]:
    """Return PyTorch's ways of computing a block by name."""
    found: dict[str, Callable[[], Any]] = {}
    for name, last in (("NCHW", False), ("channels_last", True)):
        if last and data.ndim != 4:
            continue
        writer = Torch(torch, torch.float32, last)
        x = writer.tensor(data)

        def run(writer: Torch = writer, x: Any = x) -> Any:
            writer.begin()
            return block[1](writer, x)

        run()
        found[f"eager {name}"] = run
        if compiles:
            found[f"compiled {name}"] = _frozen(torch, writer, block, x)
    return found


def _turns(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the microseconds of each of some functions, in turns."""
    is_one = os.environ.get("OMP_NUM_THREADS") == "1"
    taken: dict[str, list[float]] = {key: [] for key in runs}
    for _ in range(rounds):
        for key, run in runs.items():
            run()
            repeat = 0
            spent, begun = time.process_time(), time.perf_counter()
            while time.perf_counter() - begun < 0.01:
                run()
                repeat += 1
            wall, cpu = time.perf_counter() - begun, time.process_time() - spent
            taken[key].append((cpu if is_one else wall) / repeat)
    of = min if is_one else statistics.median
    return {key: 1e6 * of(times) for key, times in taken.items()}


def timed(name: str, torch: Any, options: argparse.Namespace) -> float:
    """Print the times of a block and its error; return PyTorch's best time over ours."""
    shape, build = BLOCKS[name]
    data = np.random.default_rng(1).standard_normal(shape).astype("float32")
    graph = Graph.of(build(Ours(), Variable(TensorType(shape, "float32"), "x")))
    instance = compile_network(graph, options.target).instance()
    (got,) = instance(data)
    with torch.no_grad():
        exact = Torch(torch, torch.float64, False)
        want = build(exact, exact.tensor(data)).numpy()
        error = float(np.linalg.norm(got.numpy() - want) / np.linalg.norm(want))
        if options.report:
            print(report(instance, floors=False), flush=True)
        rivals = _rivals(torch, BLOCKS[name], data, not options.eager)
        times = _turns({"ours": instance.run, **rivals}, options.rounds)
    ours, best = times.pop("ours"), min(times.values())
    row = " | ".join(f"{key} {value:.0f}" for key, value in times.items())
    print(
        f"| {name} | ours {ours:.0f} | {row} | {best / ours:.2f} | error {error:.1e}", flush=True
    )
    return best / ours


def main(argv: Sequence[str] | None = None) -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", default=[""], help="blocks with any of these texts")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--report", action="store_true", help="print kernel by kernel")
    options = parser.parse_args(argv)
    import torch

    ratios = [
        timed(name, torch, options)
        for name in BLOCKS
        if any(part in name for part in options.only)
    ]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"PyTorch's best / ours: geometric mean {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
