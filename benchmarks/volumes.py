"""Convolutions of volumes and transposed ones in networks on a GPU, against PyTorch's CUDA graphs.

    python -m benchmarks.volumes                     # untuned; layer, bias and ReLU
    python -m benchmarks.volumes --only transposed --report
    python -m benchmarks.volumes --unknown           # weights are inputs, and nothing follows

Each layer with its bias and ReLU is a network of its own, compiled as networks are, which convolve
images instead (`to_conv2d`), and with that pass left out. Where weights are inputs, as in a call
of the operator by name, that pass does nothing. PyTorch runs it in both layouts, with
cuDNN's choice by measuring, in strict float32, of 3-D ones also by its kernels for layer, bias and
ReLU. All are timed in turns as CUDA graphs. PyTorch must
be installed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from autotune.graph import Array, Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import OWN, to_conv2d
from autotune.network import NetworkInstance, compile_network, report
from benchmarks.rivals import set_up
from benchmarks.turns import alone, in_turns, torch_sampler

WITHOUT = replace(OWN, passes=tuple([each for each in OWN.passes if each[1] is not to_conv2d]))
# Runs of one sample, those of PyTorch that are one graph, and samples.
RUNS, TOGETHER, ROUNDS = 100, 20, 9


@dataclass(frozen=True)
class Layer:
    """A layer, the shapes of its data and its weight, and its attributes."""

    op: ops.Conv3d | ops.Conv2dTranspose
    data: tuple[int, ...]
    weight: tuple[int, ...]

    @property
    def filters(self) -> int:
        """Channels of the result."""
        return self.weight[0 if isinstance(self.op, ops.Conv3d) else 1]


def transposed(
    data: tuple[int, ...], out: int, taps: int, stride: int, cut: int, more: int = 0
) -> Layer:
    """Return a transposed convolution of square filters."""
    return Layer(ops.Conv2dTranspose((stride,), (cut,), (more,)), data, (data[1], out, taps, taps))


def volume(
    data: tuple[int, ...], out: int, taps: tuple[int, ...], steps: tuple[int, ...] = (1,)
) -> Layer:
    """Return a convolution of volumes, padded by half of the filters."""
    padding = tuple([n // 2 for n in taps])
    return Layer(ops.Conv3d(steps, padding), data, (out, data[1], *taps))


LAYERS = {
    "transposed 4x4 of 2, 8x128x16x16 to 64": transposed((8, 128, 16, 16), 64, 4, 2, 1),
    "transposed 4x4 of 2, 512x8x8 to 256": transposed((1, 512, 8, 8), 256, 4, 2, 1),
    "transposed 2x2 of 2, 512x28x28 to 256": transposed((1, 512, 28, 28), 256, 2, 2, 0),
    "transposed 4x4 of 1, 100x1x1 to 512": transposed((1, 100, 1, 1), 512, 4, 1, 0),
    "transposed 3x3 of 2, 128x56x56 to 64": transposed((1, 128, 56, 56), 64, 3, 2, 1, 1),
    "transposed 4x4 of 2, 64x128x128 to 3": transposed((1, 64, 128, 128), 3, 4, 2, 1),
    "transposed 16x16 of 8, 21x16x16 to 21": transposed((1, 21, 16, 16), 21, 16, 8, 4),
    "volume 3x3x3, 64x8x28x28 to 64": volume((1, 64, 8, 28, 28), 64, (3, 3, 3)),
    "volume 3x7x7 of 1x2x2, 3x16x112x112 to 64": volume(
        (1, 3, 16, 112, 112), 64, (3, 7, 7), (1, 2, 2)
    ),
    "volume 3x3x3 of 2, 128x8x14x14 to 256": volume((1, 128, 8, 14, 14), 256, (3, 3, 3), (2,)),
    "volume 1x1x1, 32x16x32x32 to 64": volume((1, 32, 16, 32, 32), 64, (1, 1, 1)),
    "volume 1x3x3, 32x16x56x56 to 64": volume((1, 32, 16, 56, 56), 64, (1, 3, 3)),
    "volume 3x1x1, 64x16x56x56 to 64": volume((1, 64, 16, 56, 56), 64, (3, 1, 1)),
}


def torch_calls(layer: Layer, arrays: Sequence[Array], torch: Any) -> dict[str, Callable[[], Any]]:
    """Return PyTorch's layer in each layout, on the GPU, with what follows if there is a bias.

    For that cuDNN has kernels, which PyTorch offers for convolutions alone.
    """
    functional, op, dims = torch.nn.functional, layer.op, len(layer.data) - 2
    data, weight, *rest = [torch.from_numpy(each).cuda() for each in arrays]
    bias = rest[0] if rest else None
    last = torch.channels_last_3d if dims == 3 else torch.channels_last
    calls: dict[str, Callable[[], Any]] = {}
    for name, layout in (("PyTorch", torch.contiguous_format), ("channels last", last)):
        x, w = (each.contiguous(memory_format=layout) for each in (data, weight))

        def run(x: Any = x, w: Any = w) -> Any:
            if isinstance(op, ops.Conv3d):
                y = functional.conv3d(x, w, bias, op.strides, op.padding)
            else:
                rest = (op.strides, op.padding, op.output_padding)
                y = functional.conv_transpose2d(x, w, bias, *rest)
            return y if bias is None else y.relu_()

        def fused(x: Any = x, w: Any = w) -> Any:
            return torch.cudnn_convolution_relu(
                x, w, bias, op.strides * (dims // len(op.strides)), op.padding, (1,) * dims, 1
            )

        calls[name] = run
        if bias is not None and isinstance(op, ops.Conv3d):
            calls[f"{name}, fused"] = fused
    return calls


def _replayed(torch: Any, run: Callable[[], Any]) -> Callable[[], float]:
    """Return what times runs of which several are one graph, so that launches cost nothing."""

    def several() -> Any:
        for _ in range(TOGETHER - 1):
            run()
        return run()

    sample = torch_sampler(torch, several, RUNS // TOGETHER)
    return lambda: sample() / TOGETHER


def _captured(torch: Any, calls: dict[str, Callable[[], Any]]) -> dict[str, Callable[[], float]]:
    """Return what times each way of PyTorch, but for those that cuDNN has no kernel for."""
    samplers = {}
    for key, run in calls.items():
        try:
            samplers[key] = _replayed(torch, run)
        except RuntimeError as error:
            print(f"{key}: {' '.join(str(error).split())[:120]}", file=sys.stderr)
    return samplers


@dataclass(frozen=True)
class Prepared:
    """A layer as networks of its own, and its numbers: data, weight, and bias if they have one."""

    name: str
    layer: Layer
    arrays: tuple[Array, ...]
    instances: dict[str, NetworkInstance]

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The numbers that the networks do not have as constants."""
        return self.arrays[: 1 if len(self.arrays) == 3 else 2]


def prepared(name: str, layer: Layer, target: str, unknown: bool) -> Prepared:
    """Compile a layer; unknown weights are inputs."""
    rng, dims = np.random.default_rng(0), len(layer.data) - 2
    shapes = (layer.data, layer.weight, (layer.filters,))
    arrays = tuple([rng.normal(size=s, scale=0.05).astype("float32") for s in shapes])
    x, ways = Variable(TensorType(layer.data), "data"), {"ours": OWN}
    if unknown:
        arrays = arrays[:2]
        y = apply(layer.op, x, Variable(TensorType(layer.weight), "weight"))
    else:
        ways["without"] = WITHOUT
        y = apply(layer.op, x, Constant.of(arrays[1]))
        bias = Constant.of(arrays[2].reshape(-1, *[1] * dims))
        y = apply(ops.Relu(), apply(ops.Add(), y, bias))
    compiled = {
        key: compile_network(Graph.of(y), target, passes).instance()
        for key, passes in ways.items()
    }
    return Prepared(name, layer, arrays, compiled)


def timed(made: Prepared, torch: Any) -> float:
    """Print the times of a layer; return those of the best library over ours."""
    calls = torch_calls(made.layer, made.arrays, torch)
    exact = next(iter(calls.values()))().cpu().numpy()
    samplers = _captured(torch, calls)
    for key, instance in made.instances.items():
        found = instance(*made.inputs)[0].numpy()
        error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
        assert error < 1e-5, f"{made.name}: {key} differs from PyTorch by {error:.1e}"
        sampler = instance.program.sampler()
        samplers[key] = lambda sampler=sampler: sampler.sample(RUNS) / RUNS
    times = in_turns(samplers, ROUNDS)
    median = {key: statistics.median(taken) * 1e6 for key, taken in times.items()}
    layouts = ("PyTorch", "channels last")
    library = [min(us for key, us in median.items() if key.startswith(each)) for each in layouts]
    ours = [us for key, us in median.items() if not key.startswith(layouts)]
    cells = " | ".join(f"{us:.1f}" for us in (*library, *ours))
    ratio = min(library) / median["ours"]
    print(f"| {made.name} | {cells} | {ratio:.2f} |", flush=True)
    return ratio


def main(argv: Sequence[str] | None = None) -> None:
    """Time the layers that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="layers whose name holds this")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--unknown", action="store_true", help="weights are inputs")
    parser.add_argument("--lock", help="a file; who holds it is timed, others wait")
    parser.add_argument("--report", action="store_true", help="show the kernels")
    options = parser.parse_args(argv)
    import torch

    set_up(torch)
    chosen = [(name, layer) for name, layer in LAYERS.items() if options.only in name]
    with ThreadPoolExecutor() as pool:
        make = partial(prepared, target=options.target, unknown=options.unknown)
        every = list(pool.map(make, *zip(*chosen, strict=True)))
    without = "" if options.unknown else " without `to_conv2d` |"
    print(f"| layer, us | PyTorch | channels last | ours |{without} library / ours |")
    print("|---|---|---|---|---|" + "---|" * bool(without))
    with torch.no_grad(), alone(options.lock):
        ratios = [timed(each, torch) for each in every]
    if options.report:
        for each in every:
            print(report(each.instances["ours"]))
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"library / ours: geometric mean {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
