"""The cases of `benchmarks.verification`: templates with arguments and operators with shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import autotune.templates  # noqa: F401 - registers the tasks

from autotune import te, topi
from autotune.task import get_config, template

Make = Callable[..., te.Tensor]


@dataclass(frozen=True)
class Case:
    """A template with arguments, or an operator with the shapes of its inputs.

    Attributes:
        name: of the task.
        args: of the task.
        cut: the part of the first input that one term of every sum needs, and what takes it away.
    """

    name: str
    args: tuple[Any, ...]
    cut: tuple[Any, ...] | None = None
    without: float = 0.0


# ---- operators ---------------------------------------------------------------------------------

LAST = (..., -1)
UNARY = (
    "exp log log2 log10 sqrt rsqrt tanh sigmoid sin cos tan sinh cosh asin acos atan erf floor "
    "ceil trunc round abs negative identity sign isnan isinf"
)
BINARY = (
    "add subtract multiply divide maximum minimum power equal not_equal less less_equal greater "
    "greater_equal"
)


def positive(operator: Make) -> Make:
    """An operator on values from about 0.1 to 0.9, which all functions take."""
    return lambda x: operator(x * 0.4 + 0.5)


def of_positive(operator: Make) -> Make:
    """An operator of two whose first is positive."""
    return lambda x, y: operator(topi.abs(x) + 0.1, y)


OPERATORS: dict[str, tuple[Make, list[tuple[Any, ...]], tuple[Any, ...] | None, float]] = {
    **{
        n: (positive(getattr(topi, n)), [((3, 5),), ((1000, 257),)], None, 0.0)
        for n in UNARY.split()
    },
    **{
        n: (of_positive(getattr(topi, n)), [((7, 3), (7, 3)), ((257, 1000), (1000,))], None, 0.0)
        for n in BINARY.split()
    },
    "matmul": (topi.matmul, [((3, 5), (5, 7)), ((129, 1000), (1000, 65)), ((64, 4096), (4096, 64)),
                             ((8, 50257), (50257, 8))], LAST, 0.0),
    "dense": (topi.nn.dense, [((3, 5), (7, 5)), ((33, 777), (65, 777))], LAST, 0.0),
    "batch_matmul": (topi.nn.batch_matmul,
                     [((2, 3, 5), (2, 4, 5)), ((5, 33, 300), (5, 31, 300))], LAST, 0.0),
    "softmax": (topi.nn.softmax, [((3, 5),), ((64, 1000),), ((16, 4096),), ((128, 2048),)],
                LAST, -50.0),
    "log_softmax": (topi.nn.log_softmax, [((3, 5),), ((64, 1000),), ((16, 4096),)], None, 0.0),
    "sum": (lambda x: topi.sum(x, 1), [((5, 3),), ((300, 999),), ((64, 100003),)], LAST, 0.0),
    "mean": (lambda x: topi.mean(x, 1), [((5, 3),), ((300, 999),), ((64, 50257),)], LAST, 0.0),
    "sum_all": (lambda x: topi.sum(x, keepdims=True), [((300, 333),)], None, 0.0),
    "prod": (lambda x: topi.prod(x, 1), [((5, 3),), ((300, 40),)], LAST, 0.0),
    "max": (lambda x: topi.max(x, 1), [((5, 3),), ((300, 4099),)], None, 0.0),
    "min": (lambda x: topi.min(x, 1), [((300, 4099),)], None, 0.0),
    "argmax": (lambda x: topi.argmax(x, 1), [((5, 3),), ((300, 4099),)], None, 0.0),
    "argmin": (lambda x: topi.argmin(topi.exp(x), 1), [((300, 1023),)], None, 0.0),
    "conv2d_nchw": (lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1),
                    [((1, 3, 7, 5), (2, 3, 3, 3)), ((1, 64, 28, 28), (64, 64, 3, 3)),
                     ((1, 512, 7, 7), (32, 512, 3, 3))], (slice(None), -1), 0.0),
    "conv2d_nhwc": (lambda x, w: topi.nn.conv2d_nhwc(x, w, 2, "SAME"),
                    [((2, 7, 6, 3), (3, 3, 3, 4)), ((1, 28, 28, 64), (3, 3, 64, 32))], LAST, 0.0),
    "conv2d_hwcn": (lambda x, w: topi.nn.conv2d_hwcn(x, w, 1, 1),
                    [((9, 8, 17, 2), (3, 3, 17, 5))], (slice(None), slice(None), -1), 0.0),
    "group_conv2d": (lambda x, w: topi.nn.conv2d(x, w, 1, 1, groups=2),
                     [((1, 4, 5, 5), (4, 2, 3, 3)), ((1, 64, 14, 14), (32, 32, 3, 3))], None, 0.0),
    "depthwise": (lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, 1, 1),
                  [((1, 32, 28, 28), (32, 1, 3, 3))], None, 0.0),
    "winograd": (lambda x, w: topi.nn.conv2d_winograd_nchw(x, w, 1, 1),
                 [((1, 3, 8, 7), (2, 3, 3, 3)), ((1, 64, 14, 14), (32, 64, 3, 3))],
                 (slice(None), -1), 0.0),
    "max_pool": (lambda x: topi.nn.pool2d(x, 3, 2, 1, 1), [((1, 8, 57, 55),)], None, 0.0),
    "avg_pool": (lambda x: topi.nn.pool2d(x, 3, 2, 1, 1, "avg"), [((1, 8, 57, 55),)], None, 0.0),
    "global_pool": (lambda x: topi.nn.global_pool(x, "avg"), [((2, 64, 7, 7),)], None, 0.0),
    "bias_relu": (lambda x, b: topi.nn.relu(topi.nn.bias_add(x, b)),
                  [((4, 33, 5), (33,))], None, 0.0),
    "leaky_relu": (lambda x: topi.nn.leaky_relu(x, 0.1), [((4, 33, 5),)], None, 0.0),
    "transpose": (topi.transpose, [((33, 65),)], None, 0.0),
    "clip": (lambda x: topi.clip(x, -0.5, 0.5), [((33, 65),)], None, 0.0),
    "cast": (lambda x: topi.cast(x * 100.0, "int32"), [((33, 650),)], None, 0.0),
    "half": (lambda x: topi.cast(x, "float16") * topi.cast(x + 1.0, "float16"),
             [((33, 650),)], None, 0.0),
}  # fmt: skip


@template("verification/topi")
def topi_case(name: str, shapes: Sequence[Sequence[int]], cuda: bool) -> Any:
    """An operator with a plain schedule: on CUDA a thread an element, on a CPU the loops."""
    make = OPERATORS[name][0]
    get_config().add_flop(1)
    inputs = [te.placeholder(tuple(s), name=f"x{i}") for i, s in enumerate(shapes)]
    out = make(*inputs)
    s = te.create_schedule([out.op])
    for stage in s.stages if cuda else ():
        if not isinstance(stage.op, te.ComputeOp):
            continue
        axes = list(stage.op.axis)
        fused = stage.fuse(*axes) if len(axes) > 1 else axes[0] if axes else None
        if fused is not None:
            block, thread = stage.split(fused, factor=64)
            stage.bind(block, te.thread_axis("blockIdx.x"))
            stage.bind(thread, te.thread_axis("threadIdx.x"))
    return s, [*inputs, out]


# ---- templates ---------------------------------------------------------------------------------

CONVS = [(1, 7, 5, 5, 3, 3, 3, 1, 1), (1, 14, 14, 64, 64, 3, 3, 1, 1),
         (2, 9, 11, 17, 19, 1, 1, 2, 0), (1, 28, 28, 64, 128, 3, 3, 1, 1),
         (1, 7, 7, 64, 512, 3, 3, 1, 1)]  # fmt: skip
GEMMS = [(16, 16, 16), (33, 65, 127), (64, 128, 4096), (512, 512, 512), (16, 64, 16384)]
SOFTMAXES = [(4, 8), (64, 1000), (128, 2048), (256, 4096), (17, 12289)]
LARGE_SOFTMAXES = [(4096, 4096), (4096, 512), (64, 50257)]
CHANNELS = (slice(None), -1)


def cases(target: str, small: bool) -> Iterator[Case]:
    """Return all cases of a target, those that were refused falsely once first."""
    end = "cuda" if target == "cuda" else "cpu"
    yield from softmax_cases(end, small)
    for name, (_, shape_lists, cut, without) in OPERATORS.items():
        for shapes in shape_lists[:1] if small else shape_lists:
            yield Case("verification/topi", (name, shapes, end == "cuda"), cut, without)
    convs, gemms = (CONVS[:1], GEMMS[:2]) if small else (CONVS, GEMMS)
    for conv in convs:
        yield Case(f"te/conv2d_nchw.{end}", conv, CHANNELS)
        yield Case(f"conv2d_nchw.{end}", conv, CHANNELS)
    yield Case(f"te/depthwise_conv2d_nchw.{end}", (1, 14, 14, 32, 1, 3, 3, 1, 1))
    for gemm in gemms:
        yield Case(f"te/gemm.{end}", gemm, LAST)
        yield Case(f"te/dense.{end}", gemm, LAST)
        yield Case(f"gemm_nn.{end}", gemm, LAST)
    if end == "cuda":
        for dtype in ("float16", "bfloat16"):
            for shape in ((64, 64, 64), (128, 256, 1024), (96, 64, 4096)):
                yield Case("gemm_nn.cuda", (*shape, dtype), LAST if dtype == "float16" else None)


def softmax_cases(end: str, small: bool) -> Iterator[Case]:
    """Return rows of many lengths."""
    softmaxes = SOFTMAXES[:2] if small else LARGE_SOFTMAXES + SOFTMAXES
    for rows, columns in softmaxes:
        # A single term of a longer sum is less than the rounding of an honest one.
        cut = LAST if columns <= 8192 else (..., slice(-64, None))
        yield Case(f"te/softmax.{end}", (rows, columns), cut, -50.0)
        yield Case(f"softmax.{end}", (rows, columns), cut, -50.0)
