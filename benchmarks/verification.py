"""Check the checker: right kernels must pass, planted errors must not.

    python -m benchmarks.verification [--target cuda|c] [--only softmax] [--configs 2] [--small]

Every shipped template and every operator of topi is built for small, large, odd and long shapes,
run, and judged against its reference as a trial is. A refusal is a false one. Then errors are
planted in what each kernel wrote - one wrong element, swapped rows, an answer to other inputs,
NaN, a shift of all elements by most of what one may be off - and a term of each sum is taken
away; what passes is a miss. Prints a line for each case that went wrong and a summary, and writes
JSON with ``--out``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np

from autotune import te, topi
from autotune.driver import kernel_of
from autotune.errors import AutotuneError
from autotune.kernel import Kernel, SourceKernel
from autotune.measure.inspection import Inspection
from autotune.measure.types import MeasureInput
from autotune.measure.values import read_values
from autotune.measure.verify import Oracle
from autotune.runtime import Buffers, compile_kernel, device, load
from autotune.target import Target
from autotune.task import create, get_config, template

Make = Callable[..., te.Tensor]
F4 = "float32"


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


@dataclass
class Found:
    """What came of one kernel."""

    case: str
    refused: str = ""
    failed: str = ""
    planted: int = 0
    missed: list[str] = field(default_factory=list)
    seconds: float = 0.0


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


# ---- running -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """A kernel that is built, with its reference."""

    case: Case
    label: str
    kernel: Kernel
    artifact: str
    oracle: Oracle
    inputs: tuple[str, ...]
    checks: tuple[Any, ...]


def prepare(case: Case, label: str, inp: MeasureInput, target: Target, folder: str) -> Prepared:
    """Build one configuration and compute its reference."""
    made = inp.task.instantiate(inp.config)
    if isinstance(made, SourceKernel):
        kernel = made.kernel(target.language)
    else:
        kernel = kernel_of(made, target, "verified")
    built = compile_kernel(kernel, target, out_dir=folder)
    oracle = Oracle(seed=zlib.crc32(label.encode()) % 1000)
    data = oracle.data(inp, kernel)
    return Prepared(case, label, kernel, built.artifact, oracle, data.inputs, data.checks)


def judge(one: Prepared, where: Any) -> Found:
    """Run a kernel as a trial does, then plant errors in what it wrote."""
    found = Found(one.label)
    started = time.perf_counter()
    read = [a for a in one.kernel.args if a.role != "out"]
    values = [np.array(read_values(p, a.dtype)) for p, a in zip(one.inputs, read, strict=True)]
    with load(one.artifact, one.kernel, where) as executable:
        buffers = Buffers(one.kernel.args, where, values)
        inspection = Inspection(buffers, one.checks)
        found.refused = inspection.run(executable).message or ""
        if not one.checks:
            found.failed = "no reference"
        if not found.refused and one.checks:
            right = buffers.written()[0].numpy()
            for name, wrong in planted(right, one.checks[0]):
                found.planted += 1
                buffers.written()[0].copyfrom(wrong)
                if not inspection.differences():
                    found.missed.append(name)
            without_term(one, where, executable, values, inspection, found)
    found.seconds = time.perf_counter() - started
    return found


def planted(right: Any, check: Any) -> Iterator[tuple[str, Any]]:
    """Yield wrong versions of a right output."""
    rng = np.random.default_rng(0)
    bounds = read_values(check.bounds, F4).astype("f8") if check.bounds else np.zeros(right.shape)
    floats = right.dtype.kind not in "iub"
    wide = right.astype("f8")
    if not np.isfinite(bounds).all():
        return
    place = int(rng.integers(right.size))
    one = wide.copy()
    if right.dtype == np.bool_:
        one.flat[place] = -one.flat[place]
    one.flat[place] += max(
        64 * bounds.flat[place], abs(one.flat[place]) * 1e-2, 1 if not floats else 1e-6
    )
    yield "one wrong element", back(one, right)
    if right.ndim > 1 and right.shape[0] > 1 and np.any(np.abs(wide[0] - wide[1]) > bounds[0]):
        swapped = right.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        yield "two rows swapped", swapped
    rolled = np.roll(right, 1)
    if np.any(np.abs(rolled.astype("f8") - wide) > bounds):
        yield "off by one", rolled
    if floats:
        unwritten = right.copy()
        unwritten.flat[-1] = np.nan
        yield "NaN", unwritten
        if np.any(np.abs(wide) > bounds):
            yield "zeros", np.zeros_like(right)
    # A shift that a dtype cannot show is no error.
    shifted = back(wide + 0.9 * bounds, right)
    shown = np.abs(shifted.astype("f8") - wide) > 0.8 * bounds
    if floats and right.size >= 64 and shown.mean() > 0.9 and np.mean(bounds > 0) > 0.9:
        yield "a drift of all elements", shifted


def back(values: Any, like: Any) -> Any:
    """Return values in the dtype of an array."""
    with np.errstate(all="ignore"):
        return (values > 0.5 if like.dtype == np.bool_ else values).astype(like.dtype)


def without_term(
    one: Prepared, where: Any, executable: Any, values: list[Any], inspection: Any, found: Found
) -> None:
    """Let the kernel compute with one term less in each of its sums."""
    if one.case.cut is None:
        return
    less = [v.copy() for v in values]
    less[0][one.case.cut] = one.case.without
    buffers = Buffers(one.kernel.args, where, less)
    executable.run(buffers)
    inspection.buffers.written()[0].copyfrom(buffers.written()[0])
    found.planted += 1
    if not inspection.differences():
        found.missed.append("a term missing")


def jobs(target: Target, args: argparse.Namespace) -> Iterator[tuple[Case, str, MeasureInput]]:
    """Return the configurations to judge."""
    for case in cases(args.target, args.small):
        label = " ".join(map(str, (case.name, *case.args)))
        if args.only and args.only not in label:
            continue
        try:
            task = create(case.name, case.args, target=target)
        except AutotuneError as error:
            print(f"{label}: no such task: {error}", flush=True)
            continue
        space, count = task.config_space, 1 if case.name == "verification/topi" else args.configs
        rng = np.random.default_rng(1)
        drawn = space.sample(min(4 * count, len(space)), rng)
        yielded = 0
        for index in drawn:
            inp = MeasureInput(target, task, space.get(int(index)))
            try:
                task.instantiate(inp.config)
            except AutotuneError:
                continue
            yield case, f"{label} #{index}", inp
            yielded += 1
            if yielded == count:
                break


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sweep; the status is the number of cases that went wrong, at most 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", choices=("c", "cuda"), default="c")
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--configs", type=int, default=2, help="configurations of each template")
    parser.add_argument("--small", action="store_true", help="the smallest shapes only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long; 0 for never")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    where = device(args.target)
    arch = "" if args.target == "c" else f" -arch=sm_{where.compute_version.replace('.', '')}"
    target = Target(args.target + arch)
    found = swept(target, where, args)
    bad = [f for f in found if f.refused or f.missed or f.failed]
    refused = sum(bool(f.refused) for f in found)
    planted_count, missed = sum(f.planted for f in found), sum(len(f.missed) for f in found)
    print(
        f"{len(found)} kernels on {target}: {refused} refused falsely, "
        f"{sum(bool(f.failed) for f in found)} not judged; {planted_count} planted errors, "
        f"{missed} missed"
    )
    if args.out:
        args.out.write_text(json.dumps([asdict(f) for f in found], indent=1))
    return int(bool(bad))


def _show(one: Found) -> None:
    if one.refused or one.missed or one.failed:
        what = one.failed or one.refused or f"missed: {', '.join(one.missed)}"
        print(f"{one.case}: {what.splitlines()[0]}", flush=True)


def swept(target: Target, where: Any, args: argparse.Namespace) -> list[Found]:
    """Prepare on all cores, judge one after another, until the time is over."""
    found: list[Found] = []
    deadline = time.monotonic() + (args.seconds or 1e9)
    wanted = jobs(target, args)
    pool = ThreadPoolExecutor(args.jobs)
    with tempfile.TemporaryDirectory() as folder:
        waiting: deque[tuple[str, Future[Prepared]]] = deque()
        while time.monotonic() < deadline:
            while len(waiting) < 2 * args.jobs and (job := next(wanted, None)) is not None:
                waiting.append((job[1], pool.submit(prepare, *job, target, folder)))
            if not waiting:
                break
            found.append(outcome(*waiting.popleft(), where))
            _show(found[-1])
        else:
            print(f"stopped after {args.seconds:g} s with cases left", flush=True)
        pool.shutdown(cancel_futures=True)
    return found


def outcome(label: str, future: Future[Prepared], where: Any) -> Found:
    """Judge a kernel when it is ready; whatever goes wrong must not end the sweep."""
    try:
        one = future.result()
        try:
            return judge(one, where)
        finally:
            one.oracle.close()
    except Exception as error:
        return Found(label, failed=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    raise SystemExit(main())
