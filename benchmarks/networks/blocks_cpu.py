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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.graph import Graph, TensorType, Variable
from autotune.network import compile_network, report
from benchmarks.networks.block_writers import Ours, Torch, Writer
from benchmarks.networks.torch_inductor import compiled


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
