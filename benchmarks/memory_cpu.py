"""Memory-bound operators for `templates_cpu`: common shapes, drawn ones, and PyTorch's calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Case = tuple[str, tuple[Any, ...]]
# Elements of a drawn array: little enough for the shared cache, as most activations are.
_FEWEST, _MOST = 1e4, 4e6
# Layers of ViT, BERT, Swin, ConvNeXt, LLaMA and Stable Diffusion; logits; images.
NORMS: tuple[Case, ...] = (
    ("layer_norm", (197, 768)), ("layer_norm", (128, 768)), ("layer_norm", (1024, 1024)),
    ("layer_norm", (3136, 96)), ("layer_norm", (1, 4096)), ("rms_norm", (128, 4096)),
    ("rms_norm", (1, 4096)), ("rms_norm", (512, 2048)), ("group_norm", (1, 320, 4096, 32)),
    ("group_norm", (1, 256, 3136, 32)), ("group_norm", (8, 512, 49, 32)),
    ("group_norm", (1, 64, 12544, 64)), ("log_softmax", (128, 1000)), ("log_softmax", (1, 50257)),
)  # fmt: skip
REDUCTIONS: tuple[Case, ...] = (
    ("reduce", ("sum", 1024, 1024)), ("reduce", ("sum", 1, 1024, 1024)),
    ("reduce", ("sum", 1, 1048576)), ("reduce", ("mean", 2048, 49)),
    ("reduce", ("mean", 1, 196, 768)), ("reduce", ("mean", 32, 196, 768)),
    ("reduce", ("max", 1024, 1024)), ("reduce", ("max", 1, 1024, 1024)),
    ("reduce", ("min", 197, 768)), ("reduce", ("prod", 1000, 100)),
    ("reduce", ("argmax", 1024, 1024)), ("reduce", ("argmax", 1, 50257)),
    ("reduce", ("argmax", 1, 19, 262144)), ("reduce", ("argmin", 4096, 10)),
    ("cumsum", (512, 1024)), ("cumsum", (1, 100000)), ("cumsum", (4096, 32)),
)  # fmt: skip
TRANSPOSES: tuple[Case, ...] = (
    ("transpose", ((1024, 1024), (1, 0))), ("transpose", ((4096, 1000), (1, 0))),
    ("transpose", ((12, 197, 64), (0, 2, 1))), ("transpose", ((197, 12, 64), (1, 0, 2))),
    ("transpose", ((1, 256, 56, 56), (0, 2, 3, 1))),
    ("transpose", ((1, 56, 56, 256), (0, 3, 1, 2))),
    ("transpose", ((3, 224, 224), (1, 2, 0))), ("transpose", ((224, 224, 3), (2, 0, 1))),
)  # fmt: skip
# Expressions of an operand a, or of two, and what a script calls of PyTorch instead.
EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "gelu(a)": lambda torch, a: torch.nn.functional.gelu(a),
    "log(a)": lambda torch, a: torch.log(a),
    "tanh(a)": lambda torch, a: torch.tanh(a),
    "erf(a)": lambda torch, a: torch.erf(a),
    "exp(a)": lambda torch, a: torch.exp(a),
    "sigmoid(a)": lambda torch, a: torch.sigmoid(a),
    "a * sigmoid(a)": lambda torch, a: torch.nn.functional.silu(a),
    "sqrt(a)": lambda torch, a: torch.sqrt(a),
    "relu(a)": lambda torch, a: torch.relu(a),
    "a + b": lambda torch, a, b: a + b,
    "a * b": lambda torch, a, b: a * b,
}
# Those of which negative numbers are none, which libraries are slow to find out.
OF_POSITIVE = ("log(a)", "sqrt(a)")


def _expression(text: str, *shapes: tuple[int, ...]) -> Case:
    return "elementwise", (text, tuple(zip("ab", shapes, strict=False)))


ELEMENTWISE: tuple[Case, ...] = (
    _expression("gelu(a)", (197, 3072)),
    *(_expression(text, (512, 1024)) for text in EXPRESSIONS if "b" not in text),
    _expression("a + b", (1024, 1024), (1024,)),
    _expression("a + b", (1, 256, 56, 56), (1, 256, 56, 56)),
    _expression("a * b", (1, 256, 56, 56), (256, 1, 1)),
)
NAMES = {
    "layer_norm": "norm", "rms_norm": "norm", "group_norm": "norm", "log_softmax": "norm",
    "reduce": "reduction", "cumsum": "scan", "transpose": "transpose",
    "elementwise": "elementwise",
}  # fmt: skip
TEMPLATES = frozenset(NAMES)


def named(case: Case) -> tuple[str, Case]:
    """Return a case with its name: the kind, which ``--only`` selects, template and arguments."""
    template, args = case
    if template == "elementwise":
        shapes = " ".join("x".join(map(str, shape)) for _, shape in args[1])
        return f"elementwise {args[0]} {shapes}", case
    return f"{NAMES[template]} {template} {' '.join(str(each) for each in args)}", case


def extent(rng: random.Random, low: int, high: int) -> int:
    """Return an extent, evenly by its logarithm; every second one is a multiple of 8 or 32."""
    value = round(low * (high / low) ** rng.random())
    each = rng.choice((1, 1, 8, 32))
    return max(low, value // each * each)


def until(draw: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """Return the first of what is drawn that fits."""
    while not fits(given := draw()):
        pass
    return given


def _few(*extents: int) -> bool:
    elements = 1
    for each in extents:
        elements *= each
    return _FEWEST < elements < _MOST


def _norms(rng: random.Random) -> tuple[str, Case]:
    template = rng.choice(("layer_norm", "layer_norm", "rms_norm", "group_norm", "log_softmax"))
    if template != "group_norm":
        args = until(lambda: (extent(rng, 1, 5000), extent(rng, 4, 8192)), lambda a: _few(*a))
        return named((template, args))

    def images() -> tuple[int, int, int, int]:
        groups, each = rng.choice((1, 8, 16, 32)), rng.randint(1, 40)
        return rng.choice((1, 1, 2, 8)), groups * each, rng.randint(4, 112) ** 2, groups

    return named((template, until(images, lambda a: _few(*a[:3]))))


def _reductions(rng: random.Random) -> tuple[str, Case]:
    operation = rng.choice(("sum", "mean", "max", "min", "prod", "argmax", "argmin"))
    rows = until(lambda: (extent(rng, 1, 5000), extent(rng, 4, 50000)), lambda a: _few(*a))

    def columns() -> tuple[int, int, int]:
        return rng.choice((1, 1, extent(rng, 1, 64))), extent(rng, 4, 5000), extent(rng, 2, 5000)

    down = until(columns, lambda a: _few(*a))
    return named(("reduce", (operation, *rng.choice((rows, down)))))


def _scans(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[int, int]:
        return extent(rng, 1, 5000), extent(rng, 4, 50000)

    return named(("cumsum", until(draw, lambda a: _few(*a))))


def _transposes(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[int, ...]:
        rank = rng.choice((2, 3, 3, 4))
        return tuple(extent(rng, 2, {2: 4000, 3: 400, 4: 128}[rank]) for _ in range(rank))

    shape = until(draw, lambda a: _few(*a))
    still = tuple(range(len(shape)))
    axes = until(lambda: tuple(rng.sample(still, len(still))), lambda a: a != still)
    return named(("transpose", (shape, axes)))


def _elementwise(rng: random.Random) -> tuple[str, Case]:
    text = rng.choice(list(EXPRESSIONS))
    shape = until(lambda: (extent(rng, 1, 5000), extent(rng, 4, 30000)), lambda a: _few(*a))
    second = rng.choice((shape, shape[1:], (shape[0], 1)))
    return named(_expression(text, shape, *([second] if "b" in text else [])))


DRAWS = (_norms, _reductions, _scans, _transposes, _elementwise)


def library(template: str, args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return what a script calls of PyTorch instead, on the tensors that the template takes."""
    import torch

    of = torch.nn.functional
    match template:
        case "layer_norm":
            return lambda x, gain, shift: of.layer_norm(x, x.shape[1:], gain, shift, 1e-5)
        case "rms_norm":
            return lambda x, gain: of.rms_norm(x, x.shape[1:], gain, 1e-6)
        case "group_norm":
            n, channels, spatial, groups = args
            shape = (n, channels, spatial)
            return lambda x, *others: of.group_norm(x.view(shape), groups, *others).view(x.shape)
        case "log_softmax":
            return lambda x: torch.log_softmax(x, 1)
        case "cumsum":
            return lambda x: torch.cumsum(x, 1)
        case "elementwise":
            return lambda *operands: EXPRESSIONS[args[0]](torch, *operands)
        case "transpose":
            return lambda x: x.permute(args[1]).contiguous()
        case _:
            called = getattr(torch, {"max": "amax", "min": "amin"}.get(args[0], args[0]))
            return lambda x: called(x, 1)
