"""Transformers on a GPU against PyTorch's CUDA graphs: ViT-B/16, BERT-base and GPT-2.

    python -m benchmarks.networks.transformers                       # all, both types, batch 1
    python -m benchmarks.networks.transformers --only bert --dtypes float16 --batch 8 --report
    python -m benchmarks.networks.transformers --check               # right? two blocks of each

Each network is written once, and built twice: as a graph of ours, as importers write it - GELU as
arithmetic, attention by its operator between reshapes and transposes - and of PyTorch's functions,
with the three products of attention as one, which is faster there. Parameters are drawn. Times are
those of CUDA graphs, in turns; strict float32 where it is not float16. PyTorch must be installed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotune.graph import Constant, Graph, TensorType, Value, Variable, apply, ops
from autotune.network import compile_network, report
from benchmarks.rivals import set_up
from benchmarks.turns import in_turns, in_words, torch_sampler

WIDTH, HEADS, BLOCKS = 768, 12, 12
SIZE = WIDTH // HEADS


@dataclass(frozen=True)
class Model:
    """A transformer of `BLOCKS` blocks.

    Attributes:
        rows: tokens of one input.
        vocabulary: of token numbers; 0 for images.
        first: whether norms stand before what they serve, not behind it.
        causal: whether a token sees those before it only.
        gelu: ``"erf"``, or ``"tanh"``, its approximation.
    """

    rows: int
    vocabulary: int
    first: bool
    causal: bool
    gelu: str


MODELS = {
    "vit-b/16": Model(197, 0, True, False, "erf"),
    "bert-base": Model(128, 30522, False, False, "erf"),
    "gpt-2": Model(1024, 50257, True, True, "tanh"),
}


class Writer(ABC):
    """The operators that a network is written with; values are of whatever kind it makes.

    Args:
        dtype: of all numbers.
        seed: of the parameters, which are drawn in the order in which they are asked for.
    """

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self.dtype = dtype
        self._random = np.random.default_rng(seed)

    def drawn(self, *shape: int, around: float = 0.0) -> Any:
        """Return numbers of which products with numbers near 1 are near 1."""
        numbers = self._random.standard_normal(shape, "float32") * shape[-1] ** -0.5 + around
        return self.constant(numbers.astype(self.dtype))

    @abstractmethod
    def constant(self, numbers: np.ndarray[Any, Any]) -> Any:
        """Return numbers as a value."""

    @abstractmethod
    def norm(self, x: Any) -> Any:
        """Normalise rows."""

    @abstractmethod
    def linear(self, x: Any, width: int) -> Any:
        """Multiply rows by drawn weights, and add a bias."""

    @abstractmethod
    def gelu(self, x: Any, how: str) -> Any:
        """Apply GELU."""

    @abstractmethod
    def attention(self, x: Any, batch: int, causal: bool) -> Any:
        """Attend to rows, without the product that follows."""

    @abstractmethod
    def tokens(self, x: Any, table: Any, places: Any, batch: int) -> Any:
        """Return the rows of tokens and of their places, added up."""

    @abstractmethod
    def patches(self, x: Any, weights: Any, head: Any, places: Any) -> Any:
        """Return rows of patches of 16x16 pixels, behind one row of their own, plus places."""

    @abstractmethod
    def row(self, x: Any, batch: int, number: int) -> Any:
        """Return one row of each input."""


class Ours(Writer):
    """Writes graphs."""

    def constant(self, numbers: np.ndarray[Any, Any]) -> Value:
        """Return a constant."""
        return Constant.of(numbers)

    def _number(self, value: float) -> Value:
        return Constant.of(value, dtype=self.dtype)

    def norm(self, x: Value) -> Value:
        """Apply the operator."""
        return apply(ops.LayerNorm(), x, self.drawn(WIDTH, around=1.0), self.drawn(WIDTH))

    def linear(self, x: Value, width: int) -> Value:
        """Multiply and add."""
        weights, bias = self.drawn(width, x.shape[1]), self.drawn(width)
        return apply(ops.Add(), apply(ops.Dense(), x, weights), bias)

    def gelu(self, x: Value, how: str) -> Value:
        """Write it out."""
        number = self._number
        if how == "erf":
            inner = apply(ops.Erf(), apply(ops.Multiply(), x, number(math.sqrt(0.5))))
        else:
            cube = apply(ops.Multiply(), apply(ops.Multiply(), x, x), x)
            cube = apply(ops.Multiply(), cube, number(0.044715))
            inner = apply(ops.Multiply(), apply(ops.Add(), x, cube), number(math.sqrt(2 / np.pi)))
            inner = apply(ops.Tanh(), inner)
        half = apply(ops.Multiply(), x, number(0.5))
        return apply(ops.Multiply(), half, apply(ops.Add(), inner, number(1.0)))

    def attention(self, x: Value, batch: int, causal: bool) -> Value:
        """Multiply three times, and take heads apart."""
        rows = x.shape[0] // batch
        apart, turned = ops.Reshape((batch, rows, HEADS, SIZE)), ops.Transpose((0, 2, 1, 3))
        weights = np.split(self._packed(), 3)
        biases = np.split(self._packed_bias(), 3)
        products = [
            apply(ops.Add(), apply(ops.Dense(), x, self.constant(w)), self.constant(b))
            for w, b in zip(weights, biases, strict=True)
        ]
        heads = [apply(turned, apply(apart, each)) for each in products]
        seen = apply(ops.Attention(causal=causal), *heads)
        return apply(ops.Reshape((batch * rows, WIDTH)), apply(turned, seen))

    def _packed(self) -> np.ndarray[Any, Any]:
        made: Constant = self.drawn(3 * WIDTH, WIDTH)
        return made.array

    def _packed_bias(self) -> np.ndarray[Any, Any]:
        made: Constant = self.drawn(3 * WIDTH)
        return made.array

    def tokens(self, x: Value, table: Value, places: Value, batch: int) -> Value:
        """Take rows, and add."""
        taken = apply(ops.Take(0), table, x)
        apart = apply(ops.Reshape((batch, -1, WIDTH)), taken)
        return apply(ops.Reshape((-1, WIDTH)), apply(ops.Add(), apart, places))

    def patches(self, x: Value, weights: Value, head: Value, places: Value) -> Value:
        """Convolve, and put the first row in front."""
        batch = x.shape[0]
        seen = apply(ops.Conv2d(strides=(16, 16)), x, weights)
        rows = apply(ops.Transpose((0, 2, 1)), apply(ops.Reshape((batch, WIDTH, -1)), seen))
        heads = apply(ops.BroadcastTo((batch, 1, WIDTH)), head)
        every = apply(ops.Concatenate(1), heads, rows)
        return apply(ops.Reshape((-1, WIDTH)), apply(ops.Add(), every, places))

    def row(self, x: Value, batch: int, number: int) -> Value:
        """Cut it out."""
        apart = apply(ops.Reshape((batch, -1, WIDTH)), x)
        cut = ops.StridedSlice((0, number, 0), (batch, number + 1, WIDTH))
        return apply(ops.Reshape((batch, WIDTH)), apply(cut, apart))


class Torch(Writer):
    """Writes what PyTorch runs at once."""

    def __init__(self, torch: Any, dtype: str, where: str = "cuda", seed: int = 0) -> None:
        super().__init__(dtype, seed)
        self._torch, self._f, self._where = torch, torch.nn.functional, where
        # Parameters are made by the first run, and met in the same order by all.
        self._made: list[Any] = []
        self._met = 0

    def begin(self) -> None:
        """Begin another run."""
        self._met = 0

    def drawn(self, *shape: int, around: float = 0.0) -> Any:
        """Return the next parameter."""
        if self._met == len(self._made):
            self._made.append(super().drawn(*shape, around=around))
        self._met += 1
        return self._made[self._met - 1]

    def constant(self, numbers: np.ndarray[Any, Any]) -> Any:
        """Return a tensor."""
        return self._torch.from_numpy(numbers).to(self._where)

    def norm(self, x: Any) -> Any:
        """Call the function."""
        gamma, beta = self.drawn(WIDTH, around=1.0), self.drawn(WIDTH)
        return self._f.layer_norm(x, (WIDTH,), gamma, beta, 1e-5)

    def linear(self, x: Any, width: int) -> Any:
        """Call the function."""
        weights, bias = self.drawn(width, x.shape[1]), self.drawn(width)
        return self._f.linear(x, weights, bias)

    def gelu(self, x: Any, how: str) -> Any:
        """Call the function."""
        return self._f.gelu(x, approximate="none" if how == "erf" else "tanh")

    def attention(self, x: Any, batch: int, causal: bool) -> Any:
        """Multiply once; heads are views."""
        packed = self._f.linear(x, self.drawn(3 * WIDTH, WIDTH), self.drawn(3 * WIDTH))
        q, k, v = packed.view(batch, -1, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        seen = self._f.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return seen.transpose(1, 2).reshape(x.shape)

    def tokens(self, x: Any, table: Any, places: Any, batch: int) -> Any:
        """Look up, and add."""
        taken = self._f.embedding(x, table).view(batch, -1, WIDTH)
        return (taken + places).view(-1, WIDTH)

    def patches(self, x: Any, weights: Any, head: Any, places: Any) -> Any:
        """Convolve, and put the first row in front."""
        rows = self._f.conv2d(x, weights, stride=16).flatten(2).transpose(1, 2)
        every = self._torch.cat((head.expand(x.shape[0], 1, WIDTH), rows), 1)
        return (every + places).view(-1, WIDTH)

    def row(self, x: Any, batch: int, number: int) -> Any:
        """Cut it out."""
        return x.view(batch, -1, WIDTH)[:, number]


def written(writer: Writer, model: Model, x: Any, batch: int, blocks: int = BLOCKS) -> Any:
    """Return logits of the first row, or of the last one where it is causal."""
    if model.vocabulary:
        table, places = writer.drawn(model.vocabulary, WIDTH), writer.drawn(1, model.rows, WIDTH)
        x = writer.tokens(x, table, places, batch)
    else:
        weights, head = writer.drawn(WIDTH, 3, 16, 16), writer.drawn(1, 1, WIDTH)
        x = writer.patches(x, weights, head, writer.drawn(1, model.rows, WIDTH))
    if not model.first:
        x = writer.norm(x)
    for _ in range(blocks):
        before = writer.norm(x) if model.first else x
        seen = writer.attention(before, batch, model.causal)
        x = _added(x, writer.linear(seen, WIDTH))
        x = x if model.first else writer.norm(x)
        wide = writer.linear(writer.norm(x) if model.first else x, 4 * WIDTH)
        x = _added(x, writer.linear(writer.gelu(wide, model.gelu), WIDTH))
        x = x if model.first else writer.norm(x)
    x = writer.row(x, batch, model.rows - 1 if model.causal else 0)
    return writer.linear(writer.norm(x), 1000)


def _added(a: Any, b: Any) -> Any:
    return apply(ops.Add(), a, b) if isinstance(a, Value) else a + b


def graph_of(model: Model, batch: int, dtype: str, blocks: int = BLOCKS) -> Graph:
    """Return the graph of a network."""
    kind = TensorType((batch * model.rows,), "int32")
    if not model.vocabulary:
        kind = TensorType((batch, 3, 224, 224), dtype)
    return Graph.of(written(Ours(dtype), model, Variable(kind, "x"), batch, blocks))


def input_of(model: Model, batch: int, dtype: str) -> np.ndarray[Any, Any]:
    """Return numbers for the input."""
    random = np.random.default_rng(1)
    if model.vocabulary:
        return random.integers(0, model.vocabulary, batch * model.rows).astype("int32")
    return random.standard_normal((batch, 3, 224, 224), "float32").astype(dtype)


def timed(name: str, dtype: str, batch: int, options: argparse.Namespace, torch: Any) -> None:
    """Print the times of a network and PyTorch's, in turns, and how far its numbers are."""
    model, head = MODELS[name], f"{name} batch {batch} {dtype}"
    data = input_of(model, batch, dtype)
    begun = time.monotonic()
    network = compile_network(graph_of(model, batch, dtype, options.blocks), options.target)
    instance = network.instance()
    (got,) = instance(data)
    print(f"{head}: first output after {time.monotonic() - begun:.1f} s", flush=True)
    writer, given = Torch(torch, dtype, options.device), torch.from_numpy(data).to(options.device)

    def run() -> Any:
        writer.begin()
        return written(writer, model, given, batch, options.blocks)

    with torch.no_grad():
        want = run().cpu().numpy().astype("float64")
        error = np.linalg.norm(got.numpy().astype("float64") - want) / np.linalg.norm(want)
        print(f"{head}: {error:.1e} from PyTorch's", flush=True)
        if options.report:
            print(report(instance), flush=True)
        if options.check:
            return
        other = replace(network, branches=True).instance()
        samplers = {"ours": instance.program.sampler(), "branches": other.program.sampler()}
        samples: dict[str, Callable[[], float]] = {
            key: lambda s=each: s.sample(options.runs) / options.runs  # type: ignore[misc]
            for key, each in samplers.items()
        }
        samples["torch"] = torch_sampler(torch, run, options.runs)
        times = in_turns(samples, options.rounds)
    library = statistics.median(times["torch"])
    for key, taken in times.items():
        ratio = library / statistics.median(taken)
        print(f"{head} {key:10} {in_words(taken)}, torch / it {ratio:.2f}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--dtypes", nargs="*", default=["float16", "float32"])
    parser.add_argument("--batch", nargs="*", type=int, default=[1])
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--device", default="cuda", help="PyTorch's")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--runs", type=int, default=20, help="in one sample")
    parser.add_argument("--report", action="store_true", help="print kernel by kernel")
    parser.add_argument("--check", action="store_true", help="time nothing")
    options = parser.parse_args(argv)
    import torch

    set_up(torch)
    for name in options.only:
        for dtype in options.dtypes:
            for batch in options.batch:
                timed(name, dtype, batch, options, torch)


if __name__ == "__main__":
    main()
