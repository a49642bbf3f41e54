"""The baselines of the demonstration: plain loops, and the libraries that are installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.driver import build
from autotune.kernel import Argument, SourceKernel
from autotune.runtime import Module
from autotune.runtime.host.stopwatch import Stopwatch
from autotune.runtime.timing import Clocks, Sampler
from autotune.target import Target
from autotune.utils.math import ceil_div

Array = npt.NDArray[Any]

# A CUDA graph of so many runs at least, so that no launch from Python is counted.
_GRAPH_RUNS = 20
_TRY_RUNS = 5
# How often cuDNN is asked which of its kernels is fastest: its answers differ.
_PICKS = 3

# What one writes first; the compiler gets the flags that every kernel for the target gets.
_PLAIN_C = """
void conv2d_plain(const float *data, const float *weight, const float *bias, float *out) {
  for (int f = 0; f < CO; f++)
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++) {
        float sum = bias[f];
        for (int c = 0; c < CI; c++)
          for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
              const int row = y + i - 1, column = x + j - 1;
              if (row >= 0 && row < H && column >= 0 && column < W)
                sum += data[(c * H + row) * W + column] * weight[((f * CI + c) * 3 + i) * 3 + j];
            }
        out[(f * H + y) * W + x] = sum > 0 ? sum : 0;
      }
}
"""
_PLAIN_CUDA = """
extern "C" __global__ void conv2d_plain(
    const float *data, const float *weight, const float *bias, float *out) {
  const int f = blockIdx.x, y = threadIdx.y, x = threadIdx.x;
  float sum = bias[f];
  for (int c = 0; c < CI; c++)
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) {
        const int row = y + i - 1, column = x + j - 1;
        if (row >= 0 && row < H && column >= 0 && column < W)
          sum += data[(c * H + row) * W + column] * weight[((f * CI + c) * 3 + i) * 3 + j];
      }
  out[(f * H + y) * W + x] = sum > 0 ? sum : 0;
}
"""


def plain_loops(args: Sequence[Argument], target: Target) -> Module:
    """Return the layer as seven loops: one thread in C, a thread for each output in CUDA."""
    _, channels, height, width = args[0].shape
    filters = args[1].shape[0]
    on_gpu = target.language == "cuda"
    launch: dict[str, Any] = {"grid": (filters,), "block": (width, height)} if on_gpu else {}
    kernel = SourceKernel(
        "conv2d_plain",
        _PLAIN_CUDA if on_gpu else _PLAIN_C,
        defines={"CO": filters, "CI": channels, "H": height, "W": width},
        args=list(args),
        **launch,
    )
    with target:
        return build(kernel)


class TimedFunction:
    """Times a Python function on each of several sets of arguments in turn, as kernels are."""

    alone = False

    def __init__(self, sets: Sequence[Callable[[], object]]) -> None:
        self.input_sets = len(sets)
        self._sets = sets
        self._turn = 0
        self._watch = Stopwatch()

    def sample(self, number: int) -> float:
        """Call ``number`` times and return the seconds all of them took."""
        calls = [self._sets[(self._turn + i) % self.input_sets] for i in range(number)]
        self._turn = (self._turn + number) % self.input_sets
        self._watch.restart()
        self._watch.call(calls)
        return self._watch.seconds

    def clocks(self) -> Clocks | None:
        """Return whether the last sample lost a core."""
        return self._watch.clocks


class Replayed:
    """Times replays of a CUDA graph of torch, so that no launch from Python is counted."""

    input_sets = 1
    alone = False

    def __init__(self, torch: Any, sets: Sequence[Callable[[], object]]) -> None:
        self._torch = torch
        self._sets = sets  # the graph has the addresses of their arrays, and keeps none alive
        self.input_sets = len(sets)
        rounds = ceil_div(_GRAPH_RUNS, len(sets))
        self._runs = rounds * len(sets)
        side = torch.cuda.Stream()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                sets[0]()
            with torch.cuda.graph(self._graph, stream=side):
                for _ in range(rounds):
                    for one in sets:
                        one()

    def sample(self, number: int) -> float:
        """Replay for ``number`` runs at least; return the seconds that ``number`` took."""
        replays = ceil_div(number, self._runs)
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(replays):
            self._graph.replay()
        end.record()
        self._torch.cuda.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 * number / (replays * self._runs)

    def clocks(self) -> Clocks | None:
        """Return None: no clocks are read."""
        return None


def libraries(target: Target, inputs: Sequence[Array], sets: int) -> dict[str, Sampler]:
    """Return how to time the libraries a user would call instead, on ``sets`` copies.

    Each gets the same values, and copies in turn where the tuned kernel gets them, so that all
    find their data in the same caches.
    """
    copies = [[np.array(one) for one in inputs] for _ in range(sets)]
    has_torch = importlib.util.find_spec("torch") is not None
    if target.kind == "cuda":
        return {"cuDNN (torch)": _torch_cuda(copies)} if has_torch else {}
    found: dict[str, Sampler] = {
        "numpy (unfold + BLAS)": TimedFunction([_numpy(c) for c in copies])
    }
    if has_torch:
        found["oneDNN (torch)"] = _torch_cpu(copies)
    return found


def _numpy(inputs: Sequence[Array]) -> Callable[[], Array]:
    data, weight, bias = inputs
    matrix = weight.reshape(weight.shape[0], -1)

    def conv() -> Array:
        padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (2, 3))
        columns = windows.transpose(1, 4, 5, 0, 2, 3).reshape(matrix.shape[1], -1)
        out: Array = np.maximum(matrix @ columns + bias.reshape(-1, 1), 0.0)
        return out

    return conv


def _torch_cpu(copies: Sequence[Sequence[Array]]) -> Sampler:
    torch: Any = importlib.import_module("torch")
    tensors = [[torch.from_numpy(one) for one in inputs] for inputs in copies]
    return min(
        (TimedFunction(_torch_layer(torch, tensors, layout)) for layout in _layouts(torch)),
        key=lambda sampler: min(sampler.sample(1) for _ in range(_TRY_RUNS)),
    )


def _torch_cuda(copies: Sequence[Sequence[Array]]) -> Sampler:
    """Return cuDNN in its better layout, at the best of several picks of its benchmark mode."""
    # With a cache of one plan only, cuDNN would be benchmarked again after another convolution.
    os.environ.setdefault("TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT", "1")
    torch: Any = importlib.import_module("torch")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0  # all that it offers, not the first ten
    tensors = [[torch.from_numpy(one).cuda() for one in inputs] for inputs in copies]
    small = torch.ones(1, 1, 4, 4, device="cuda")
    captured = []
    for layout in _layouts(torch):
        for _ in range(_PICKS):
            torch.nn.functional.conv2d(small, small)  # the next one is picked again
            captured.append(Replayed(torch, _torch_layer(torch, tensors, layout)))
    return min(
        captured,
        key=lambda sampler: min(sampler.sample(_GRAPH_RUNS) for _ in range(_TRY_RUNS)),
    )


def _layouts(torch: Any) -> tuple[object, object]:
    """Return both layouts that the library has kernels for; the faster one counts."""
    return torch.contiguous_format, torch.channels_last


def _torch_layer(
    torch: Any, tensors: Sequence[Sequence[object]], layout: object
) -> list[Callable[[], object]]:
    def layer(data: Any, weight: Any, bias: Any) -> Callable[[], object]:
        data, weight = (one.contiguous(memory_format=layout) for one in (data, weight))
        flat = bias.reshape(-1)

        def conv() -> object:
            with torch.no_grad():
                return torch.relu(torch.nn.functional.conv2d(data, weight, flat, padding=1))

        return conv

    return [layer(*inputs) for inputs in tensors]
