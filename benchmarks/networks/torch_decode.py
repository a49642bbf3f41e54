"""Steps of a decoder with static caches by torch.compile(backend="autotune"), beside torch's.

    python -m benchmarks.networks.torch_decode --rows 1024 --dtype float16

The decoder has the form of Llama: RMS norms, rotary embeddings, grouped queries, a gated layer. A
step takes a token, writes keys and values of all layers to their caches in place, counts its
position in place, and returns the next token and logits. Steps are called as users do; and
captured in a CUDA graph, which feeds tokens back, and replayed. Times are microseconds from one
step to the next, measured by events, in turns, halfway through the cache. Parameters are drawn.
Errors are those of logits of eight steps to the model in float64, as norms.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from autotune.torch import backend
from benchmarks.rivals import set_up
from benchmarks.turns import in_turns, in_words

# Steps in one sample.
_STEPS = 20
_WORDS = 32000
Step = Callable[[], object]


def decoder(torch: Any, options: argparse.Namespace) -> Any:
    """Return a decoder with caches as buffers."""
    nn, f = torch.nn, torch.nn.functional
    width, heads, rows = options.width, options.width // 64, options.rows
    shared = heads // options.groups

    class Norm(nn.Module):  # type: ignore[misc, name-defined]
        """RMS norm in float32, as of Llama."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(width) + 0.5)

        def forward(self, x: Any) -> Any:
            wide = x if x.dtype == torch.float64 else x.float()
            wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * wide.to(x.dtype)

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        """Attention over a cache, and a gated layer."""

        def __init__(self) -> None:
            super().__init__()
            part = 64 * options.groups
            self.first, self.second = Norm(), Norm()
            self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
            self.k, self.v = (nn.Linear(width, part, bias=False) for _ in range(2))
            inner = options.inner
            self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
            self.down = nn.Linear(inner, width, bias=False)
            for name in ("keys", "values"):
                self.register_buffer(name, torch.zeros(1, options.groups, rows, 64))

        def forward(self, x: Any, at: Any, cos: Any, sin: Any, mask: Any) -> Any:
            y = self.first(x)
            parts = (self.q, self.k, self.v)
            q, k, v = (each(y).view(1, 1, -1, 64).transpose(1, 2) for each in parts)
            self.keys.index_copy_(2, at, turned(k, cos, sin))
            self.values.index_copy_(2, at, v)
            keys, values = (
                each[:, :, None].expand(-1, -1, shared, -1, -1).reshape(1, heads, rows, 64)
                for each in (self.keys, self.values)
            )
            q = turned(q, cos, sin)
            seen = f.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = x + self.o(seen.transpose(1, 2).reshape(1, 1, width))
            y = self.second(x)
            return x + self.down(f.silu(self.gate(y)) * self.up(y))

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        """The decoder."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(_WORDS, width)
            self.layers = nn.ModuleList(Layer() for _ in range(options.layers))
            self.norm, self.head = Norm(), nn.Linear(width, _WORDS, bias=False)
            angles = torch.outer(torch.arange(rows), 10000 ** -(torch.arange(0, 64, 2) / 64))
            for name, each in (("cos", angles.cos()), ("sin", angles.sin())):
                self.register_buffer(name, torch.cat((each, each), -1))
            self.register_buffer("at", torch.zeros(1, dtype=torch.int64))
            self.register_buffer("every", torch.arange(rows))

        def forward(self, token: Any) -> Any:
            at, x = self.at.clone(), self.words(token)
            cos, sin = self.cos[at], self.sin[at]
            mask = (self.every <= at)[None, None, None]
            for layer in self.layers:
                x = layer(x, at, cos, sin, mask)
            logits = self.head(self.norm(x))
            self.at.add_(1)
            return logits.argmax(-1), logits

    return Decoder().eval()


def stepping(torch: Any, call: Callable[[Any], Any], token: Any) -> Step:
    """Return what calls a model with the token that it returned."""
    last = [token]

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        last[0] = call(last[0])[0].clone()

    return step


def captured(torch: Any, call: Callable[[Any], Any], token: Any) -> Step:
    """Return what replays a CUDA graph of a step, which puts the next token in its place."""
    own, stream = token.clone(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            own.copy_(call(own)[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        own.copy_(call(own)[0])
    return graph.replay  # type: ignore[no-any-return]


def error_of(torch: Any, call: Callable[[Any], Any], model: Any, exact: Any) -> float:
    """Return how far logits are from those of a model in float64, of eight steps."""
    torch.manual_seed(1)
    found, wanted = [], []
    model.at.zero_(), exact.at.zero_()
    for token in torch.randint(0, _WORDS, (8, 1, 1), device=model.at.device):
        torch.compiler.cudagraph_mark_step_begin()
        found.append(call(token)[1].double().clone())
        wanted.append(exact(token)[1])
    difference, whole = torch.cat(found) - torch.cat(wanted), torch.cat(wanted)
    return float(difference.norm() / whole.norm())


def _sample(torch: Any, model: Any, middle: int, step: Step) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    model.at.fill_(middle)
    start.record()
    for _ in range(_STEPS):
        step()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / _STEPS


def main(argv: Sequence[str] | None = None) -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--inner", type=int, default=2816)
    parser.add_argument("--groups", type=int, default=4, help="heads of keys and values")
    parser.add_argument("--rows", type=int, nargs="+", default=[1024], help="of the caches")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--rivals", nargs="*", default=["eager", "inductor", "reduce-overhead"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0, help="of the parameters")
    options = parser.parse_args(argv)
    torch: Any = importlib.import_module("torch")
    set_up(torch)
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, flush=True)
    with torch.no_grad():
        for rows in options.rows:
            torch._dynamo.reset()
            _race(torch, argparse.Namespace(**{**vars(options), "rows": rows}))


def _race(torch: Any, options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    model = decoder(torch, options).cuda()
    exact = copy.deepcopy(model).double()
    model = model.to(getattr(torch, options.dtype))
    ways = {
        "autotune": lambda: torch.compile(model, backend=backend),
        "eager": lambda: model,
        "inductor": lambda: torch.compile(model),
        "reduce-overhead": lambda: torch.compile(model, mode="reduce-overhead"),
    }
    token = torch.zeros(1, 1, dtype=torch.int64, device="cuda")
    samplers = {}
    for name in ("autotune", *options.rivals):
        begun, call = time.monotonic(), ways[name]()
        for _ in range(3):
            call(token)
        ready = time.monotonic() - begun
        made = {name: partial(stepping, torch)}
        if name != "reduce-overhead":
            made[f"{name}, captured"] = partial(captured, torch)
        error = error_of(torch, call, model, exact)
        print(f"{name}: ready in {ready:.1f} s, error {error:.1e}", flush=True)
        for way, make in made.items():
            run = make(call, token)
            samplers[way] = partial(_sample, torch, model, options.rows // 2, run)
            samplers[way]()
            print(f"{way}: {samplers[way]() * 1e6:.1f} us at first", flush=True)
    for way, taken in in_turns(samplers, options.rounds, warm=2).items():
        print(f"{options.rows:6} rows {options.dtype} {way:20} {in_words(taken)}", flush=True)


if __name__ == "__main__":
    main()
