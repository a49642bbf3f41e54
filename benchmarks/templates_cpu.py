"""The C templates against oneDNN, through PyTorch, and the BLAS of numpy, in turns.

    python -m benchmarks.templates_cpu                       # on an idle machine: median wall time
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \\
        python -m benchmarks.templates_cpu --busy            # any machine: least CPU time
    python -m benchmarks.templates_cpu --only "conv 512" "gemm 512" --tune 40
    python -m benchmarks.templates_cpu --drawn 60 --seed 1 --only conv gemm   # shapes nobody chose
    python -m benchmarks.templates_cpu --drawn 60 --seed 1 --check            # beside float64
    python -m benchmarks.templates_cpu --shapes "conv 640->48 1x1 on 70" "gemm 64x3771x736"
    python -m benchmarks.templates_cpu --only norm reduction scan transpose elementwise
    ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell \\
        MKL_ENABLE_INSTRUCTIONS=AVX2 python -m benchmarks.templates_cpu \\
        --target "llvm -mcpu=x86-64-v3"                      # all without AVX-512

Norms, reductions, prefix sums, transposes and elementwise operators are of `memory_cpu`, beside
PyTorch's eager calls.
Convolutions are those of ResNet-18 and others, depthwise ones those of MobileNet, with bias and
ReLU, in NCHW with weights as they are trained: nothing is laid out ahead of time for the template;
`winograd` is the template for filters that were transformed ahead, untuned, which networks take.
PyTorch does them as a script would call it in both layouts, its weights in that layout already;
and traced, frozen and optimised for inference in both, which packs weights ahead. ``peak`` is what
cores do with multiply-adds alone.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from autotune.templates import source, source_rows, source_windows
from autotune.templates.convolutions.winograd_cuda import transformed_filters

import autotune
from autotune.cli.demo_rivals import TimedFunction
from autotune.driver import build
from autotune.measure.run.host_load import let_threads_rest
from autotune.measure.run.race_rounds import race_rounds
from autotune.record import apply_history_best
from autotune.runtime import Module
from autotune.runtime.device import cpu
from autotune.runtime.roofline import ceilings_of
from autotune.target import Target
from autotune.task import ApplyConfig, FallbackConfigEntity, create
from autotune.tuner import AutoTuner, callback
from benchmarks import memory_cpu
from benchmarks.auto_scheduler.cases import RESNET18
from benchmarks.drawn_cpu import Case, drawn, named
from benchmarks.rivals_cpu import convolution, pool, rivals
from benchmarks.template_workloads import DEPTHWISE as DEPTHWISE_V2

Call = Callable[[], Any]
LLVM = Target("llvm")
# How long a call is repeated.
_SOME_SECONDS = 0.01
PRODUCTS = (
    (512, 512, 512), (768, 768, 768), (1024, 1024, 1024), (2048, 2048, 2048), (768, 3072, 768),
    (128, 768, 3072), (128, 3072, 768), (197, 768, 768), (1000, 1000, 1000), (511, 513, 509),
    (97, 1001, 333), (16, 4096, 4096), (1, 4096, 4096), (1, 1000, 2048), (8, 1000, 2048),
    (32, 4096, 1024),
)  # fmt: skip
# Channels, size, filters, taps and stride: ResNet-18; 1x1 layers of ResNet-50 and of MobileNet-V2;
# stems of MobileNet and VGG.
LAYERS = (
    *RESNET18, (256, 56, 64, 1, 1), (64, 56, 256, 1, 1), (512, 28, 128, 1, 1),
    (128, 28, 512, 1, 1), (1024, 14, 256, 1, 1), (256, 14, 1024, 1, 1), (2048, 7, 512, 1, 1),
    (256, 56, 512, 1, 2),
    (144, 56, 24, 1, 1), (32, 28, 192, 1, 1), (96, 14, 576, 1, 1), (320, 7, 1280, 1, 1),
    (3, 224, 32, 3, 2), (3, 224, 64, 3, 1),
)  # fmt: skip
# Channels, size and stride of depthwise layers of MobileNet; those of MobileNet-V2.
DEPTHWISE = (
    (32, 112, 1), (64, 112, 2), (128, 56, 1), (128, 56, 2), (512, 14, 1), (512, 14, 2),
    *DEPTHWISE_V2[1:],
)  # fmt: skip
TEMPLATES: dict[str, Callable[..., Any]] = {
    "conv2d_nchw": source.conv2d_nchw_cpu,
    "depthwise_conv2d": source_windows.depthwise_conv2d_cpu,
    "gemm_nn": source.gemm_nn_cpu,
    "pool2d": source_windows.pool2d_cpu,
    "softmax": source.softmax_rows_cpu,
    "log_softmax": source_rows.log_softmax_cpu,
    "layer_norm": source_rows.layer_norm_cpu,
    "rms_norm": source_rows.rms_norm_cpu,
    "group_norm": source_rows.group_norm_cpu,
    "reduce": source_rows.reduce_cpu_rows,
    "cumsum": source_rows.cumsum_cpu,
    "transpose": source_rows.transpose_cpu_any,
    "elementwise": source_rows.elementwise_cpu_any,
}


def cases() -> dict[str, Case]:
    """Return template and arguments by the name of the case."""
    found: dict[str, Case] = {}
    for channels, size, filters, taps, stride in LAYERS:
        name = f"conv {channels}->{filters} {taps}x{taps} on {size}, stride {stride}"
        shape = (1, size, size, filters, channels, taps, taps, stride, taps // 2, True, True)
        found[name] = "conv2d_nchw", shape
    for channels, size, stride in DEPTHWISE:
        each = (1, size, size, channels, 1, 3, 3, stride, 1, True, "relu")
        found[f"depthwise {channels} 3x3 on {size}, stride {stride}"] = "depthwise_conv2d", each
    for m, n, k in PRODUCTS:
        found[f"gemm {m}x{n}x{k}"] = "gemm_nn", (m, n, k)
    others = (*memory_cpu.NORMS, *memory_cpu.REDUCTIONS, *memory_cpu.TRANSPOSES)
    others = (*others, *memory_cpu.ELEMENTWISE)
    return found | dict(map(memory_cpu.named, others))


def built(template: str, args: tuple[Any, ...], target: Target, trials: int = 0) -> Module:
    """Return the kernel of a template, untuned or after some trials."""
    if not trials:
        return _built(template, args, target, ApplyConfig(FallbackConfigEntity()))
    task = create(f"{template}.cpu", args, target)
    with TemporaryDirectory() as folder:
        log = f"{folder}/log"
        option = autotune.measure_option(
            builder=autotune.LocalBuilder(timeout=60),
            runner=autotune.LocalRunner(number=4, repeat=3, min_repeat_ms=10),
        )
        AutoTuner(task, seed=0).tune(trials, option, callbacks=[callback.log_to_file(log)])
        return _built(template, args, target, apply_history_best(log))


def _built(
    template: str, args: tuple[Any, ...], target: Target, context: AbstractContextManager[Any]
) -> Module:
    with context, target:
        return build(TEMPLATES[template](*args), name="ours")


def ahead(args: tuple[Any, ...], arrays: Sequence[Any], target: Target) -> dict[str, Call]:
    """Return Winograd's convolution, untuned, for what it computes; its filters are ready."""
    n, h, w, filters, channels, taps, _, stride, padding, bias, relu = args
    if (taps, stride) != (3, 1):
        return {}
    shape = (n, h, w, filters, channels, 4, padding, bias, "relu" if relu else "none")
    with ApplyConfig(FallbackConfigEntity()), target:
        module = build(source_windows.winograd_conv2d_cpu(*shape), name="winograd")
    given = [arrays[0], transformed_filters(arrays[1], 4), *arrays[2:-1], arrays[-1].copy()]
    return {"winograd": lambda: module(*given)}


def least_cpu_time(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Return the least CPU seconds of each call, taken in turns.

    Each is called for as long before: else one that reads what the one before it read would find
    that in the cache, and the one after another that reads its own arrays would not.
    """

    def mean(call: Call) -> float:
        started, runs = time.process_time(), 0
        while time.process_time() - started < _SOME_SECONDS:
            call()
            runs += 1
        return (time.process_time() - started) / runs

    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            mean(call)
            least[name] = min(least[name], mean(call))
    return least


def medians(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Return the median of the wall seconds of each call, taken in turns while threads rest."""
    samplers = [TimedFunction([call]) for call in calls.values()]
    timings = race_rounds(samplers, rounds, 0.01, 0, let_threads_rest)
    return {name: each.median for name, each in zip(calls, timings, strict=True)}


def check(name: str, case: Case, options: argparse.Namespace) -> None:
    """Print how far results are from float64, as a part of the largest; raise where it is far."""
    template, args = case
    module = built(template, args, Target(options.target), options.tune)
    arrays = operands(module, args)
    module(*arrays)
    expected = exact(template, args, [each.astype("float64") for each in arrays])
    apart = np.abs(arrays[-1] - expected).max() / max(np.abs(expected).max(), 1e-30)
    print(f"| {name} | {apart:.1e} |", flush=True)
    if not apart < 1e-5:
        raise SystemExit(f"{name}: results are off by {apart:.1e} of the largest")


def operands(module: Module, args: tuple[Any, ...]) -> list[Any]:
    """Return random arrays for a kernel, such as its function is defined for."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(a.shape).astype(a.dtype) for a in module.kernel.args]
    return [np.abs(each) for each in arrays] if args[0] in memory_cpu.OF_POSITIVE else arrays


def exact(template: str, args: tuple[Any, ...], arrays: Sequence[Any]) -> Any:
    """Return what a template computes, by numpy or PyTorch, of operands in float64."""
    import torch

    first, *others = (torch.from_numpy(each) for each in arrays[:-1])
    if template == "gemm_nn":
        return arrays[0] @ arrays[1]
    if template in memory_cpu.TEMPLATES:
        return memory_cpu.library(template, args)(first, *others).numpy()
    if template == "softmax":
        return torch.softmax(first, 1).numpy()
    if template == "pool2d":
        return pool(torch, args)(first).numpy()
    return convolution(torch, args)(first, *others).numpy()


def compare(name: str, case: Case, options: argparse.Namespace, peak: float) -> tuple[str, float]:
    """Print one row; return its kind and how much longer the best library takes."""
    template, args = case
    target = Target(options.target)
    module = built(template, args, target, options.tune)
    arrays = operands(module, args)
    own = {"ours": lambda: module(*arrays)}
    if template == "conv2d_nchw":
        own |= ahead(args, arrays, target)
    calls = {**own, **rivals(template, args, arrays)}
    seconds = (least_cpu_time if options.busy else medians)(calls, options.rounds)
    ours, best = seconds["ours"], min(t for who, t in seconds.items() if who not in own)
    flop = create(f"{template}.cpu", args, target).flop
    shown = " | ".join(f"{who} {t * 1e6:.0f}" for who, t in seconds.items())
    # Elsewhere the peak is that of a machine that was as busy.
    bound = options.busy or template in memory_cpu.TEMPLATES
    share = "" if bound else f"{flop / ours / peak:.0%} of peak | "
    print(f"| {name} | {shown} | {share}{best / ours:.2f} |", flush=True)
    return template, best / ours


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="*", default=[""], help="cases whose names hold any of these texts"
    )
    parser.add_argument("--tune", type=int, default=0, metavar="TRIALS")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--drawn", type=int, default=0, help="shapes of each kind from a seed")
    parser.add_argument("--seed", type=int, default=0, help="of drawn shapes")
    parser.add_argument(
        "--shapes", nargs="*", default=[], help="just these, named as in the output"
    )
    parser.add_argument("--check", action="store_true", help="compare with float64; no times")
    parser.add_argument(
        "--busy", action="store_true", help="least CPU time; set OMP_NUM_THREADS=1"
    )
    options = parser.parse_args(argv)
    threads = int(os.environ.get("OMP_NUM_THREADS", LLVM.limits.sm_count))
    peak = ceilings_of(cpu()).flops["float32"] * threads / LLVM.limits.sm_count
    head = "" if options.busy else f", peak {peak / 1e9:.0f} GFLOP/s"
    print(f"{threads} threads{head}; us, and library / ours")
    ratios: dict[str, list[float]] = {}
    every = drawn(options.seed, options.drawn) if options.drawn else cases()
    if options.shapes:
        every = dict(map(named, options.shapes))
    for name, case in every.items():
        if not any(text in name for text in options.only):
            continue
        if options.check:
            check(name, case, options)
        else:
            kind, ratio = compare(name, case, options, peak)
            ratios.setdefault(memory_cpu.NAMES.get(kind, kind), []).append(ratio)
    for kind, found in ratios.items():
        mean = float(np.exp(np.mean(np.log(found))))
        print(f"{kind}: geometric mean {mean:.2f}, least {min(found):.2f}")


if __name__ == "__main__":
    main()
