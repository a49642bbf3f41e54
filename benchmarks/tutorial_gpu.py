"""The AutoTVM and auto-scheduler tutorials' convolution on a GPU, against TVM's published kernel.

    python -m benchmarks.tutorial_gpu [--published kernel.cu] [--trials 300] [--seed 0] [--out DIR]

The layer is 1x512x7x7, 512 filters 3x3, padding 1, float32. Timed in one run, each as the median
of CUDA-graph replays with the arrays resident in L2:

1. the CUDA text that TVM's auto-scheduler tutorial prints (convolution + bias + ReLU), given as a
   file, since it is theirs;
2. the schedule that the same page prints, written with our te, lowered and built by us;
3. AutoTVM's tutorial template, written with our te and tuned for a number of trials.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import autotune
from autotune import te, topi
from autotune.runtime import Module
from autotune.target import Target
from autotune.topi.testing import conv2d_nchw_python

SHAPE = (1, 7, 7, 512, 512, 3, 3)
Loops = list[Any]


def conv_bias_relu() -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor, te.Tensor]:
    """Return data, kernel, bias, the convolution and the output of the tutorial's graph."""
    n, h, w, co, ci, kh, kw = SHAPE
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, kh, kw), name="kernel")
    bias = te.placeholder((1, co, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, 1, 1, 1, "float32")
    return data, kernel, bias, conv, topi.nn.relu(conv + bias)


def split_by(stage: te.Stage, axes: Sequence[Any], factors: Sequence[Sequence[int]]) -> Loops:
    """Split each axis by its inner factors; return the levels, outermost first."""
    parts = []
    for axis, inner in zip(axes, factors, strict=True):
        loops = []
        for factor in reversed(inner):
            axis, last = stage.split(axis, factor=factor)
            loops.append(last)
        parts.append([axis, *reversed(loops)])
    return [list(level) for level in zip(*parts, strict=True)]


def published_schedule() -> tuple[te.Schedule, list[te.Tensor]]:
    """Return the schedule the auto-scheduler tutorial prints as its best of ten trials.

    Tiles: channels 64 x 2 (virtual) x 2 (threads) x 2 x 1, rows and columns 7 threads each; the
    reduction in steps of 4 x 32 channels and one tap; input and filter staged in shared memory
    and fetched by 98 threads.
    """
    data, kernel, bias, conv, out = conv_bias_relu()
    s = te.create_schedule(out.op)
    for stage in s.stages:
        if stage.op.name in ("pad_temp", "T_add"):
            stage.compute_inline()
    c = s[conv]
    spatial = split_by(c, c.op.axis, [(1, 1, 1, 1), (2, 2, 2, 1), (1, 7, 1, 1), (1, 7, 1, 1)])
    reduction = split_by(c, c.op.reduce_axis, [(4, 32), (1, 1), (1, 1)])
    order = [*spatial[:3], *reduction[:2], spatial[3], reduction[2], spatial[4]]
    c.reorder(*[loop for level in order for loop in level])
    o = s[out]
    outer = split_by(o, o.op.axis, [(1, 1, 1), (2, 2, 2), (1, 7, 1), (1, 7, 1)])
    o.reorder(*[loop for level in outer for loop in level])
    c.compute_at(o, outer[2][-1])
    shared = [
        s.cache_read(tensor, "shared", [conv]) for tensor in (kernel, conv.op.input_tensors[0])
    ]
    for tensor in shared:
        s[tensor].compute_at(c, reduction[0][-1])
    for level, tag in zip(outer, ("blockIdx.x", "vthread", "threadIdx.x"), strict=False):
        o.bind(o.fuse(*level), te.thread_axis(tag))
    for tensor in shared:
        stage = s[tensor]
        fetch, vector = stage.split(stage.fuse(*stage.op.axis), factor=1)
        stage.vectorize(vector)
        _, thread = stage.split(fetch, factor=98)
        stage.bind(thread, te.thread_axis("threadIdx.x"))
    c.pragma(spatial[0][0], "auto_unroll_max_step", 0)
    c.pragma(spatial[0][0], "unroll_explicit", True)
    return s, [data, kernel, bias, out]


def published_kernel(path: Path) -> autotune.SourceKernel:
    """Return the page's CUDA text with its launch: 64 blocks of 98 threads."""
    n, h, w, co, ci, kh, kw = SHAPE
    order = ["data", "kernel", "out", "bias"]
    return autotune.SourceKernel(
        "default_function_kernel0",
        path.read_text("utf-8"),
        args=[
            autotune.arg("data", (n, ci, h, w)),
            autotune.arg("kernel", (co, ci, kh, kw)),
            autotune.arg("bias", (1, co, 1, 1)),
            autotune.arg("out", (n, co, h, w), role="out"),
        ],
        calls=[autotune.call("default_function_kernel0", order, grid=64, block=98)],
    )


@autotune.template("benchmarks/tutorial_conv2d")
def tutorial_template(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: int, padding: int
) -> tuple[te.Schedule, list[te.Tensor]]:
    """AutoTVM's CUDA tutorial: four-level tiles, inputs through shared memory and registers."""
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, kh, kw), name="kernel")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, 1, "float32")
    s = te.create_schedule([conv.op])
    cfg: Any = autotune.get_config()
    _define_knobs(cfg, s[conv])
    padded = s[conv].op.input_tensors[0]
    s[padded].compute_inline()
    accumulator = s.cache_write(conv, "local")
    shared = [s.cache_read(tensor, "shared", [accumulator]) for tensor in (padded, kernel)]
    private = [s.cache_read(tensor, "local", [accumulator]) for tensor in shared]
    batch, last_thread = _tile_outputs(cfg, s, conv)
    s[accumulator].compute_at(s[conv], last_thread)
    outer, middle = _tile_sums(cfg, s, accumulator)
    for tensor in shared:
        s[tensor].compute_at(s[accumulator], outer)
    for tensor in private:
        s[tensor].compute_at(s[accumulator], middle)
    for tensor in shared:
        loop = s[tensor].fuse(*s[tensor].op.axis)
        for name, tag in zip("fyx", _THREADS, strict=True):
            part, loop = s[tensor].split(loop, nparts=cfg[f"tile_{name}"].size[2])
            s[tensor].bind(part, te.thread_axis(tag))
    s[conv].pragma(batch, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[conv].pragma(batch, "unroll_explicit", cfg["unroll_explicit"].val)
    return s, [data, kernel, conv]


_BLOCKS, _THREADS = ([f"{unit}.{d}" for d in "zyx"] for unit in ("blockIdx", "threadIdx"))
_SUMS = ("rc", "ry", "rx")


def _define_knobs(cfg: Any, stage: te.Stage) -> None:
    for name, axis in zip("fyx", stage.op.axis[1:], strict=True):
        cfg.define_split(f"tile_{name}", axis, num_outputs=4)
    for name, axis in zip(_SUMS, stage.op.reduce_axis, strict=True):
        cfg.define_split(f"tile_{name}", axis, num_outputs=3)
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])


def _tile_outputs(cfg: Any, s: te.Schedule, conv: te.Tensor) -> tuple[te.IterVar, te.IterVar]:
    """Divide outputs among blocks, virtual threads and threads; return the batch, and a thread."""
    batch, *spatial = s[conv].op.axis
    tiles = [
        cfg[f"tile_{name}"].apply(s, conv, axis) for name, axis in zip("fyx", spatial, strict=True)
    ]
    block, virtual, thread, inner = zip(*tiles, strict=True)
    for loops, tags in ((block, _BLOCKS), (virtual, ["vthread"] * 3), (thread, _THREADS)):
        for loop, tag in zip(loops, tags, strict=True):
            s[conv].bind(loop, te.thread_axis(tag))
    s[conv].reorder(batch, *block, *virtual, *thread, *inner)
    return batch, thread[-1]


def _tile_sums(cfg: Any, s: te.Schedule, sums: te.Tensor) -> tuple[te.IterVar, te.IterVar]:
    """Divide sums into three levels of loops; return where inputs are loaded to either memory."""
    steps = [
        cfg[f"tile_{name}"].apply(s, sums, axis)
        for name, axis in zip(_SUMS, s[sums].op.reduce_axis, strict=True)
    ]
    outer, middle, innermost = zip(*steps, strict=True)
    s[sums].reorder(*outer, *middle, *innermost, *s[sums].op.axis)
    return outer[-1], middle[-1]


def timed(module: Module, arrays: Sequence[np.ndarray], expected: np.ndarray) -> dict[str, float]:
    """Check a built function and time it three times over; return microseconds and error."""
    device = module.device
    on_device = [autotune.runtime.arrays.array(a, device) for a in arrays]
    out = autotune.runtime.arrays.array(np.full(expected.shape, np.nan, "float32"), device)
    module(*on_device, out)
    error = np.linalg.norm(out.numpy() - expected) / np.linalg.norm(expected)
    evaluator = module.time_evaluator(
        module.entry_name, device, number=20, repeat=31, min_repeat_ms=5
    )
    rounds = [evaluator(*on_device, out).median * 1e6 for _ in range(3)]
    return {"us": float(np.median(rounds)), "spread_us": np.ptp(rounds), "error": float(error)}


def tune(trials: int, seed: int, log: Path) -> tuple[autotune.Task, float]:
    """Tune the tutorial template; return the task and the seconds it took."""
    task = autotune.create("benchmarks/tutorial_conv2d", (*SHAPE, 1, 1), "cuda")
    option = autotune.measure_option(
        autotune.LocalBuilder(timeout=10),
        autotune.LocalRunner(number=4, repeat=3, min_repeat_ms=5, cooldown_interval=0.0),
    )
    start = time.perf_counter()
    autotune.tuner.XGBTuner(task, seed=seed).tune(
        trials, option, callbacks=[autotune.callback.log_to_file(str(log))]
    )
    return task, time.perf_counter() - start


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison and print one line a kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--published", type=Path)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(options.seed)
    n, h, w, co, ci, kh, kw = SHAPE
    data = rng.uniform(-1, 1, (n, ci, h, w)).astype("float32")
    kernel = rng.uniform(-1, 1, (co, ci, kh, kw)).astype("float32")
    bias = rng.uniform(-1, 1, (1, co, 1, 1)).astype("float32")
    conv = conv2d_nchw_python(data.astype("float64"), kernel.astype("float64"), 1, 1)
    fused = np.maximum(conv + bias, 0)

    results: dict[str, Any] = {}
    with Target("cuda"):
        if options.published:
            module = autotune.build(published_kernel(options.published))
            results["published CUDA text"] = timed(module, [data, kernel, bias], fused)
        module = autotune.build(*published_schedule(), name="published")
        (options.out / "published_schedule.cu").write_text(module.get_source())
        results["published schedule, our te"] = timed(module, [data, kernel, bias], fused)
        log = options.out / "tutorial_conv2d.log"
        log.unlink(missing_ok=True)
        task, seconds = tune(options.trials, options.seed, log)
        with autotune.apply_history_best(str(log)):
            module = autotune.build(*tutorial_template(*task.args), name="tuned")
        (options.out / "tutorial_tuned.cu").write_text(module.get_source())
        results[f"tutorial template, {options.trials} trials"] = {
            **timed(module, [data, kernel], conv), "tuning_s": seconds,
        }  # fmt: skip
    for name, row in results.items():
        print(f"{name:36}", "  ".join(f"{key} {value:.3g}" for key, value in row.items()))
    (options.out / "tutorial_gpu.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
