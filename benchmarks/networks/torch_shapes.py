"""What each further set of shapes of a `torch.compile`d model costs, in CPU seconds.

    python -m benchmarks.networks.torch_shapes            # all models, five sets of shapes
    python -m benchmarks.networks.torch_shapes --only llama --shapes 8 --profile 3
    python -m benchmarks.networks.torch_shapes --only decoder --device cuda

Seconds are of this process and of the compilers that it starts, so other programs that run on the
machine count little. Kernels are compiled into an empty cache, as on a machine that sees the model
for the first time. Torch traces a graph at the first set of shapes, and again with symbols for
sizes at the second; from the third on the time is ours. Results are compared with those of the
model. ``--profile`` prints where the Python time of one set of shapes goes.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import resource
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch

import autotune.torch

assert autotune.torch  # registers the backend

# Takes the number of a set of shapes and a model or what was compiled of it, and runs that.
Run = Callable[[int, Any], Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="one of the models: " + ", ".join(MODELS))
    parser.add_argument("--shapes", type=int, default=5, help="sets of shapes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", type=int, help="the set of shapes to profile, from 1 on")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        os.environ["AUTOTUNE_CACHE_DIR"] = folder
        torch._dynamo.config.cache_size_limit = 64
        for name, make in MODELS.items():
            if args.only in (None, name):
                model, run = make(torch.device(args.device))
                fast = torch.compile(model, backend="autotune")
                spent = []
                for number in range(args.shapes):
                    call = partial(run, number, fast)
                    spent.append(_seconds(call, number + 1 == args.profile))
                    torch.testing.assert_close(call(), run(number, model), rtol=1e-3, atol=1e-3)
                print(f"{name:12}", *(f"{each:6.2f}" for each in spent), flush=True)


def _seconds(call: Callable[[], Any], profiled: bool) -> float:
    """Return the CPU seconds of one call."""
    before = _spent()
    if not profiled:
        call()
        return _spent() - before
    profile = cProfile.Profile()
    profile.runcall(call)
    spent = _spent() - before
    pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
    return spent


def _spent() -> float:
    """Return the CPU seconds of this process and of the children that have ended."""
    every = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in every)


class _Block(torch.nn.Module):
    """A layer of a decoder that returns its cache, longer by what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(32) for _ in range(2)])
        self.into, self.back = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.up, self.down = torch.nn.Linear(32, 128), torch.nn.Linear(128, 32)

    def forward(self, x: Any, cache: Any) -> tuple[Any, Any]:
        first, second = self.norms
        query, *new = [
            each.unflatten(-1, (4, 8)).transpose(1, 2) for each in self.into(first(x)).chunk(3, -1)
        ]
        keys, values = [torch.cat(pair, 2) for pair in zip(cache, new, strict=True)]
        attention = torch.nn.functional.scaled_dot_product_attention(query, keys, values)
        x = x + self.back(attention.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(second(x)))), (keys, values)


class _Decoder(torch.nn.Module):
    """A decoder in torch alone."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = torch.nn.Embedding(99, 32), torch.nn.Linear(32, 99)
        self.blocks = torch.nn.ModuleList([_Block() for _ in range(2)])

    def forward(self, tokens: Any, caches: Any) -> tuple[Any, Any]:
        x, new = self.tokens(tokens), []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, grown = block(x, cache)
            new.append(grown)
        return self.head(x), new


def _decoder(device: torch.device) -> tuple[Any, Run]:
    def run(number: int, model: Any) -> Any:
        torch.manual_seed(number)
        caches = torch.randn(2, 2, 1, 4, 7 + number, 8, device=device)
        given = [tuple(each.clone() for each in pair) for pair in caches]
        return model(torch.full((1, 1), 3, device=device), given)[0]

    return _Decoder().eval().to(device), run


def _generating(model: Any, device: torch.device) -> tuple[Any, Run]:
    """Return a model of transformers, and what computes the logits behind more and more tokens."""
    model = model.eval().to(device)

    def run(number: int, called: Any) -> Any:
        prompt = torch.arange(7 + number, device=device)[None]
        state = model(prompt, use_cache=True).past_key_values
        given = torch.full((1, 1), 3, device=device)
        return called(given, past_key_values=state, use_cache=True).logits

    return model, run


def _gpt2(device: torch.device) -> tuple[Any, Run]:
    transformers: Any = import_module("transformers")
    config = transformers.GPT2Config(
        vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    return _generating(transformers.GPT2LMHeadModel(config), device)


def _llama(device: torch.device) -> tuple[Any, Run]:
    transformers: Any = import_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    return _generating(transformers.LlamaForCausalLM(config), device)


def _convolutions(device: torch.device) -> tuple[Any, Run]:
    nn = torch.nn
    layers: list[Any] = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    for width in (16, 32):
        layers += [nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]

    def run(number: int, model: Any) -> Any:
        return model(torch.ones(number + 1, 3, 32, 32, device=device))

    return nn.Sequential(*layers).eval().to(device), run


def _encoder(device: torch.device) -> tuple[Any, Run]:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()

    def run(number: int, called: Any) -> Any:
        return called(torch.ones(2, 16 + number, 32, device=device))

    return model.to(device), run


MODELS = {
    "decoder": _decoder, "gpt2": _gpt2, "llama": _llama, "convolutions": _convolutions,
    "encoder": _encoder,
}  # fmt: skip


if __name__ == "__main__":
    main()
