"""Models of PyTorch by torch.compile(backend="autotune"), beside torch's own ways to run them.

    python -m benchmarks.networks.torch_compile resnet18 vit_b_16 --dtype float32 float16
    python -m benchmarks.networks.torch_compile gpt2 --rivals eager reduce-overhead max-autotune
    python -m benchmarks.networks.torch_compile resnet18 --tune 60 --log r18.log

Each is called as a user does: a function of tensors on the current stream. Rivals are the model in
a CUDA graph, and Inductor in the modes that use CUDA graphs. Times are seconds from one call to
the next of many calls in a row, measured by events, in turns. Parameters are drawn; TF32 is off;
cuDNN chooses by measuring. Errors are norms of differences to the model in float64. Names are
those of torchvision and timm, which must be installed for them; ``t5`` (T5-small, encoder and
decoder) and ``llama`` (four blocks, grouped queries), of transformers; and ``gpt2`` and ``bert``,
which are here.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from autotune.torch import backend

# Calls in one sample.
_CALLS = 20
_SIZES = {"inception_v3": 299}
_MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def transformer(torch: Any, name: str) -> tuple[Any, Any]:
    """Return GPT-2 or BERT of the published size without a head, and tokens for it."""
    nn, f = torch.nn, torch.nn.functional
    width, heads, blocks, rows, words = 768, 12, 12, 128, 30522
    causal = name == "gpt2"

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        """Attention and two layers; norms in front for GPT-2, behind for BERT."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

        def attend(self, x: Any) -> Any:
            batch, count, _ = x.shape
            parts = self.qkv(x).view(batch, count, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            seen = f.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return self.out(seen.transpose(1, 2).reshape(batch, count, width))

        def grow(self, x: Any) -> Any:
            return self.down(f.gelu(self.up(x), approximate="tanh" if causal else "none"))

        def forward(self, x: Any) -> Any:
            if causal:
                x = x + self.attend(self.first(x))
                return x + self.grow(self.second(x))
            x = self.first(x + self.attend(x))
            return self.second(x + self.grow(x))

    class Transformer(nn.Module):  # type: ignore[misc, name-defined]
        """Embeddings and blocks."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(rows, width)
            self.blocks = nn.ModuleList(Block() for _ in range(blocks))
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.norm(x)

    return Transformer(), torch.randint(0, words, (1, rows))


def of_transformers(torch: Any, name: str) -> tuple[Any, Any]:
    """Return a model of transformers, made of a configuration alone, and tokens for it."""
    library: Any = importlib.import_module("transformers")
    if name == "t5":
        config = library.T5Config(decoder_start_token_id=0)
        inner = library.T5ForConditionalGeneration(config)
    else:
        config = library.LlamaConfig(
            hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, vocab_size=32000,
            num_attention_heads=16, num_key_value_heads=4,
        )  # fmt: skip
        inner = library.LlamaForCausalLM(config)

    class Logits(torch.nn.Module):  # type: ignore[misc, name-defined]
        """The model as a function of tokens."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, tokens: Any) -> Any:
            both = {"decoder_input_ids": tokens[:, :64]} if name == "t5" else {}
            return self.inner(tokens, use_cache=False, **both).logits

    return Logits(), torch.randint(0, 32000, (1, 128))


def of_images(torch: Any, name: str) -> tuple[Any, Any]:
    """Return a model of torchvision, or else of timm, and an image for it."""
    models = importlib.import_module("torchvision.models")
    if hasattr(models, name):
        size = _SIZES.get(name, 224)
        return getattr(models, name)(weights=None), torch.randn(1, 3, size, size)
    model = importlib.import_module("timm").create_model(name, pretrained=False)
    return model, torch.randn(1, *model.default_cfg["input_size"])


def model_of(torch: Any, name: str, seed: int) -> tuple[Any, Any]:
    """Return a model whose parameters are drawn, and an input."""
    torch.manual_seed(seed)
    if name in ("gpt2", "bert"):
        model, data = transformer(torch, name)
    elif name in ("t5", "llama"):
        model, data = of_transformers(torch, name)
    else:
        model, data = of_images(torch, name)
    for parameter in model.parameters():
        # Weights that begin as zeros would hide what is wrong before them.
        if parameter.detach().std() == 0 or parameter.numel() == 1:
            parameter.data += torch.randn_like(parameter) * 0.1
    return model.eval(), data


def _graphed(torch: Any, model: Any, data: Any) -> Callable[[], Any]:
    """Return what replays a CUDA graph of the model as it is."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(data)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(data)

    def run() -> Any:
        graph.replay()
        return output

    return run


def _ways(
    torch: Any, model: Any, data: Any, options: argparse.Namespace
) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return what makes each way to run the model, by name."""
    settings = {"tune": options.tune, "log": options.log} if options.tune else {}
    ours = torch.compile(model, backend=backend, options=settings)
    found: dict[str, Callable[[], Callable[[], Any]]] = {"autotune": lambda: partial(ours, data)}
    for name in options.rivals:
        if name in _MODES:
            compiled = torch.compile(model, mode=name)
            found[name] = partial(partial, compiled, data)
        else:
            found["eager in a CUDA graph"] = partial(_graphed, torch, model, data)
    return found


def _sample(torch: Any, run: Callable[[], Any]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(_CALLS):
        run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / _CALLS


Runs = dict[str, Callable[[], Any]]


def prepare(torch: Any, name: str, dtype: str, options: argparse.Namespace) -> Runs:
    """Return each way to run a model in a dtype; print how long that took, and its error."""
    model, data = model_of(torch, name, options.seed)
    exact_input = data.double() if data.is_floating_point() else data
    model, data = model.cuda(), data.cuda()
    exact = model.double()(exact_input.cuda())
    model = model.to(getattr(torch, dtype))
    data = data.to(getattr(torch, dtype)) if data.is_floating_point() else data
    if options.channels_last and data.ndim == 4:
        model = model.to(memory_format=torch.channels_last)
        data = data.to(memory_format=torch.channels_last)
    runs: Runs = {}
    for way, make in _ways(torch, model, data, options).items():
        begun = time.monotonic()
        try:
            run = make()
            for _ in range(4):
                output = run()
            torch.cuda.synchronize()
        except Exception as error:  # a rival that does not work here is said, and left out
            print(f"{name} {dtype} {way}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        error_norm = float((output.double() - exact).norm() / exact.norm())
        ready_s = time.monotonic() - begun
        said = f"ready in {ready_s:.1f} s, error {error_norm:.1e}"
        print(f"{name} {dtype} {way}: {said}", flush=True)
        runs[way] = run
    return runs


def time_in_turns(torch: Any, name: str, dtype: str, runs: Runs, rounds: int) -> None:
    """Print the times of all ways to run a model."""
    times: dict[str, list[float]] = {way: [] for way in runs}
    for number in range(rounds + 2):
        for way, run in runs.items():
            seconds = _sample(torch, run)
            if number > 1:
                times[way].append(seconds)
    for way, taken in times.items():
        low, middle, high = (1e6 * each(taken) for each in (min, statistics.median, max))
        said = f"{middle:8.1f} us ({low:.1f} to {high:.1f})"
        print(f"{name:18} {dtype:8} {way:24} {said}", flush=True)


@contextlib.contextmanager
def _alone(path: str | None) -> Iterator[None]:
    """Let processes that prepare side by side be timed one after another."""
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(argv: Sequence[str] | None = None) -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="+", help="of torchvision, timm, or named above")
    parser.add_argument("--dtype", nargs="+", default=["float32"], help="float32, float16, ...")
    parser.add_argument("--rivals", nargs="*", default=["eager", "reduce-overhead"],
                        choices=["eager", *_MODES])  # fmt: skip
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0, help="of the parameters")
    parser.add_argument("--tune", type=float, default=0, help="seconds for each model")
    parser.add_argument("--log", default="torch_compile.log", help="of tuning")
    parser.add_argument("--lock", help="a file; who holds it is timed, others wait")
    parser.add_argument("--channels-last", action="store_true", help="images as NHWC for torch")
    options = parser.parse_args(argv)
    torch: Any = importlib.import_module("torch")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, flush=True)
    with torch.no_grad():
        every = [(name, dtype) for name in options.models for dtype in options.dtype]
        prepared = [prepare(torch, name, dtype, options) for name, dtype in every]
        with _alone(options.lock):
            for (name, dtype), runs in zip(every, prepared, strict=True):
                time_in_turns(torch, name, dtype, runs, options.rounds)


if __name__ == "__main__":
    main()
