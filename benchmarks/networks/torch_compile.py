"""Models of PyTorch by torch.compile(backend="autotune"), beside torch's own ways to run them.

    python -m benchmarks.networks.torch_compile resnet18 vit_b_16 --dtype float32 float16
    python -m benchmarks.networks.torch_compile gpt2 --rivals eager reduce-overhead max-autotune
    python -m benchmarks.networks.torch_compile resnet18 --tune 60 --log r18.log

Each is called as a user does: a function of tensors on the current stream. Rivals are the model in
a CUDA graph, of images in both layouts, and Inductor in the modes that use CUDA graphs. Times are
seconds from one call to the next of many calls in a row, measured by events, in turns. Parameters
are drawn; TF32 is off; cuDNN chooses by measuring. Errors are norms of differences to the model in
float64. Names are those of torchvision and timm, which must be installed for them; ``t5``
(T5-small, encoder and decoder) and ``llama`` (four blocks, grouped queries), of transformers; of
torch alone are ``gpt2``, ``bert``, ``encoder`` (`nn.TransformerEncoder`) and ``rotary`` (four
blocks whose positions turn complex numbers).
"""

from __future__ import annotations

import argparse
import copy
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from autotune.torch import backend
from benchmarks.networks.torch_models import encoder, rotary
from benchmarks.rivals import set_up
from benchmarks.turns import alone, in_turns, in_words

# Calls in one sample.
_CALLS = 20
_SIZES = {"inception_v3": 299}
_WRITTEN = {"encoder": encoder, "rotary": rotary}
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
    elif name in _WRITTEN:
        model, data = _WRITTEN[name](torch)
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


@dataclass
class Prepared:
    """A model on the device, an input, its result in float64, and the ways to run it."""

    torch: Any
    title: str
    model: Any
    data: Any
    exact: Any
    runs: dict[str, Callable[[], Any]] = field(default_factory=dict)

    def add(self, way: str, make: Callable[[], Callable[[], Any]]) -> None:
        """Add a way; print how long it took until it ran, and its error."""
        begun = time.monotonic()
        try:
            run = make()
            for _ in range(4):
                output = run()
            self.torch.cuda.synchronize()
        except Exception as error:  # a rival that does not work here is said, and left out
            said = f"{type(error).__name__}: {str(error)[:200]}"
        else:
            error_norm = float((output.double() - self.exact).norm() / self.exact.norm())
            said = f"ready in {time.monotonic() - begun:.1f} s, error {error_norm:.1e}"
            self.runs[way] = run
        print(f"{self.title} {way}: {said}", flush=True)

    def add_rivals(self, names: Sequence[str]) -> None:
        """Add ways of torch; of images eager in both layouts (Inductor chooses one itself)."""
        for name in names:
            if name in _MODES:
                compiled = self.torch.compile(self.model, mode=name)
                self.add(name, partial(partial, compiled, self.data))
                continue
            self.add("eager in a CUDA graph", partial(_graphed, self.torch, self.model, self.data))
            if self.data.ndim == 4:
                last = {"memory_format": self.torch.channels_last}
                other = copy.deepcopy(self.model).to(**last), self.data.to(**last)
                self.add("the same, channels_last", partial(_graphed, self.torch, *other))

    def time(self, rounds: int) -> None:
        """Print the times of all ways."""
        samplers = {way: partial(_sample, self.torch, run) for way, run in self.runs.items()}
        for way, taken in in_turns(samplers, rounds, warm=2).items():
            print(f"{self.title} {way:24} {in_words(taken)}", flush=True)


def _sample(torch: Any, run: Callable[[], Any]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(_CALLS):
        run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / _CALLS


def prepared(torch: Any, name: str, dtype: str, options: argparse.Namespace) -> Prepared:
    """Return a model in a dtype, and our way to run it."""
    model, data = model_of(torch, name, options.seed)
    exact_input = data.double() if data.is_floating_point() else data
    model, data = model.cuda(), data.cuda()
    exact = model.double()(exact_input.cuda())
    model = model.to(getattr(torch, dtype))
    data = data.to(getattr(torch, dtype)) if data.is_floating_point() else data
    if options.channels_last and data.ndim == 4:
        model = model.to(memory_format=torch.channels_last)
        data = data.to(memory_format=torch.channels_last)
    made = Prepared(torch, f"{name:18} {dtype:8}", model, data, exact)
    settings = {"tune": options.tune, "log": options.log} if options.tune else {}
    ours = torch.compile(model, backend=backend, options=settings)
    made.add("autotune", lambda: partial(ours, data))
    return made


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
    set_up(torch)
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, flush=True)
    with torch.no_grad():
        every = [(name, dtype) for name in options.models for dtype in options.dtype]
        models = [prepared(torch, name, dtype, options) for name, dtype in every]
        with alone(options.lock):  # cuDNN and Inductor choose by measuring
            for model in models:
                model.add_rivals(options.rivals)
                model.time(options.rounds)


if __name__ == "__main__":
    main()
