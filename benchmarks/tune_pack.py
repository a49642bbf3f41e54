"""Tune common shapes with the templates that ship, for the pack of tuned kernels.

    python -m benchmarks.tune_pack --out h200.log --seconds 90 [--only gemm] [--target cuda]

    python -m benchmarks.tune_pack --race h200.log

The seconds are divided evenly among the workloads, in one session; a log that exists is gone on
with. Every trial and every final race stands in the log, from which `autotune hub pack` makes the
pack. ``--race`` times the records of a log, which programs then use untuned, in turn with what
templates choose without them. Needs one device, and nothing else running on it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cubin import Loaded, Replays, build, race
from benchmarks.templates_gpu import make_templates_importable

# Convolutions at batch 1, of ResNet-18 and then of ResNet-50: h = w, output and input
# channels, kernel, stride, padding.
CONVOLUTIONS = (
    (224, 64, 3, 7, 2, 3), (56, 64, 64, 3, 1, 1), (56, 128, 64, 3, 2, 1), (56, 128, 64, 1, 2, 0),
    (28, 128, 128, 3, 1, 1), (28, 256, 128, 3, 2, 1), (28, 256, 128, 1, 2, 0),
    (14, 256, 256, 3, 1, 1), (14, 512, 256, 3, 2, 1), (14, 512, 256, 1, 2, 0),
    (7, 512, 512, 3, 1, 1),
    (56, 64, 64, 1, 1, 0), (56, 256, 64, 1, 1, 0), (56, 64, 256, 1, 1, 0), (56, 128, 256, 1, 1, 0),
    (56, 128, 128, 3, 2, 1), (28, 512, 128, 1, 1, 0), (56, 512, 256, 1, 2, 0),
    (28, 128, 512, 1, 1, 0), (28, 256, 512, 1, 1, 0), (28, 256, 256, 3, 2, 1),
    (14, 1024, 256, 1, 1, 0), (28, 1024, 512, 1, 2, 0), (14, 256, 1024, 1, 1, 0),
    (14, 512, 1024, 1, 1, 0), (14, 512, 512, 3, 2, 1), (7, 2048, 512, 1, 1, 0),
    (14, 2048, 1024, 1, 2, 0), (7, 512, 2048, 1, 1, 0),
)  # fmt: skip
# Of MobileNet-V2: channels, h = w, stride.
DEPTHWISE = (
    (32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1), (192, 28, 2),
    (384, 14, 1), (576, 14, 1), (576, 14, 2), (960, 7, 1),
)  # fmt: skip
GEMMS = (
    (1024, 1024, 1024, "float32"), (4096, 4096, 4096, "float16"), (1024, 1024, 1024, "float16"),
    (16, 4096, 4096, "float32"), (16, 4096, 4096, "float16"), (2048, 2048, 2048, "float32"),
)  # fmt: skip
# Linear layers of BERT (128 and 384 tokens) and ViT (197), with the weights as networks have them.
LINEARS = tuple(
    (tokens, outputs, inputs, "float16", 1, False, True)
    for tokens in (128, 197, 384)
    for outputs, inputs in ((768, 768), (3072, 768), (768, 3072))
)
SOFTMAXES = ((4096, 4096), (1024, 1024))
# Seconds that a final race and the check of the winner may take of one workload's share.
_RACE_SHARE = 0.3


def workloads() -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the task and the arguments of each."""
    for args in GEMMS:
        yield "gemm_nn.cuda", args
    for size, outputs, inputs, kernel, stride, padding in CONVOLUTIONS:
        yield (
            "conv2d_nchw.cuda",
            (1, size, size, outputs, inputs, kernel, kernel, stride, padding),
        )
    for args in SOFTMAXES:
        yield "softmax.cuda", args
    for args in LINEARS:
        yield "gemm.cuda", args
    for channels, size, stride in DEPTHWISE:
        yield "depthwise_conv2d.cuda", (1, size, size, channels, 1, 3, 3, stride, 1)


def race_records(log: Path) -> None:
    """Print, of each record of a log, its time and that of the choice without it."""
    import torch

    from autotune.record import load_from_file

    with tempfile.TemporaryDirectory() as folder:
        for record, _ in load_from_file(log, True):
            task, sides, kept = record.task, [], []
            default = task.default()
            for name, config in (("record", record.config), ("default", default)):
                if config is None:
                    continue
                kernel, arrays = task.instantiate(config).kernel("cuda"), dict[str, Any]()
                for each in (*kernel.args, *kernel.workspace):
                    dtype = getattr(torch, each.dtype)
                    arrays[each.name] = torch.zeros(each.shape, dtype=dtype, device="cuda")
                    if dtype.is_floating_point:
                        arrays[each.name].normal_()
                cubin, text = build(kernel, folder, "sm_90")
                if cubin is None:
                    raise RuntimeError(text)
                sides.append({name: Replays(Loaded(kernel, cubin, arrays).run)})
                kept.append(arrays)  # graphs keep addresses, not arrays
            times = race(sides)
            line = ", ".join(
                f"{t.name} {t.median:.2f} ({t.low:.2f} to {t.high:.2f})" for t in times
            )
            gain = f", {times[-1].median / times[0].median:.2f}x" if len(times) > 1 else ""
            print(f"{task.name} {task.args}: {line} us{gain}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Tune them all, or race what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="pack.log", help="the log")
    parser.add_argument("--race", type=Path, help="a log whose records are timed")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--only", default="", help="part of the name of the tasks to tune")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--trials", type=int, default=400, help="most trials of a workload")
    parser.add_argument("--missing", action="store_true", help="only what the pack lacks")
    given = parser.parse_args(argv)
    make_templates_importable()
    import autotune.templates

    import autotune

    if given.race:
        race_records(given.race)
        return
    known = set()
    if given.missing:
        log = autotune.templates.TUNED / "h200.log"
        known = {(i.task.name, i.task.args) for i, _ in autotune.record.load_from_file(log, True)}
    wanted = [each for each in workloads() if given.only in each[0] and each not in known]
    until = time.monotonic() + given.seconds
    builder = autotune.LocalBuilder(timeout=30)
    with autotune.Session(builder, autotune.LocalRunner(timeout=20)) as session:
        for left, (name, args) in zip(range(len(wanted), 0, -1), wanted, strict=True):
            share = (until - time.monotonic()) / left
            if share <= 0:
                break
            task = autotune.create(name, args=args, target=given.target)
            result = autotune.tuner.AutoTuner(task).tune(
                given.trials,
                session,
                callbacks=[autotune.callback.log_to_file(given.out)],
                resume=given.out,
                timeout_s=share * (1 - _RACE_SHARE),
            )
            best = "-" if result.seconds is None else f"{result.seconds * 1e6:.2f}"
            default = result.default_seconds
            was = "-" if default is None else f"{default * 1e6:.2f}"
            print(f"{name} {args}: {best} us, default {was}, {result.trials} trials", flush=True)


if __name__ == "__main__":
    main()
