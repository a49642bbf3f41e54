"""Kernels of Hopper's `wgmma`: whether they are right over odd shapes, and against libraries.

    python -m benchmarks.wgmma right                                  # some 10 seconds
    python -m benchmarks.wgmma products others attention plain        # some 50 seconds
    python -m benchmarks.wgmma plain --each 20 --out plain.json

Of each workload the choices that the templates' own estimates like best are timed, one for each
shape of tile, beside the untuned choice and the best of `mma.sync`; the fastest three are then
timed in turns with the library. A kernel that hangs ends the process, and says which it was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autotune.task import ConfigSpace
from benchmarks.cubin import Loaded, build, race
from benchmarks.templates_gpu import Bench, captured_rivals
from benchmarks.wgmma_cases import kernels

ARCH, HANGS_S, DRAWN = "sm_90", 20.0, 1500
PARTS = {
    "products": (
        "layer linear 197x3072x768 gelu fp16", "layer linear 1024x4096x1024 gelu fp16",
        "layer scores 96x512x512x64 fp16", "layer linear 2048x50257x768 fp16",
    ),
    "others": (
        "layer nhwc 16x 128->128 k3 28 fp16", "layer nhwc 64->64 k3 56 fp16", "layer tf32 2048",
        "layer tf32 2048 nt", "layer linear 197x3072x768 gelu tf32",
    ),
    "attention": (
        "layer attention 16x1024 d64", "layer attention 4x16x2048 d64 causal",
        "layer attention 4x16x2048 d128 causal", "layer attention 32/8x2048 d128 causal",
    ),
    "plain": (
        "fp16 gemm 512x512x8192", "fp16 gemm 4096", "fp16 gemm 2048", "fp16 gemm 1536",
        "fp16 gemm 1024", "fp16 gemm 16x4096x4096",
    ),
}  # fmt: skip
# Knobs of which the space has more values than are worth their time here.
FEW = {"warps_n": (1,), "frags_m": (1, 2), "band": (1, 8), "stages": (3, 4, 5, 6, 8)}


@contextmanager
def ends_within(seconds: float, what: object) -> Iterator[None]:
    """End the process if what stands within takes longer: nothing else ends such a kernel."""

    def end() -> None:
        print(f"HANGS {what}", flush=True)
        os._exit(3)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def right(pool: ThreadPoolExecutor, folder: str) -> bool:
    """Print how far each odd kernel is from float64; return whether all are right."""
    cases = list(kernels())
    built = [pool.submit(build, source.kernel("cuda"), folder, ARCH) for _, source, _ in cases]
    wrong = 0
    for (name, source, bound), one in zip(cases, built, strict=True):
        cubin, text = one.result()
        with ends_within(HANGS_S, name):
            error = error_of(source, cubin) if cubin else float("nan")
        good = error <= bound
        wrong += not good
        print(f"{'right' if good else 'WRONG'} {name:22} {error:.1e} {text[-200:]}", flush=True)
    print(f"{len(cases) - wrong} of {len(cases)} right")
    return not wrong


def error_of(source: Any, cubin: Path) -> float:
    """Return the largest error of four runs, relative to the largest result; NaN stays NaN."""
    import torch

    rng = np.random.default_rng(0)
    arrays, inputs = {}, []
    for one in source.args:
        dtype = getattr(torch, one.dtype)
        if one.role == "in":
            numbers = torch.from_numpy(rng.standard_normal(one.shape, np.float32))
            inputs.append(arrays.setdefault(one.name, numbers.to(dtype).cuda()))
        else:
            out = arrays[one.name] = torch.empty(one.shape, dtype=dtype, device="cuda")
    kernel = source.kernel("cuda")
    for one in kernel.workspace:
        arrays[one.name] = torch.empty(one.shape, device="cuda", dtype=getattr(torch, one.dtype))
    exact = source.reference(*(each.double().cpu().numpy() for each in inputs))
    wanted = torch.from_numpy(np.asarray(exact)).cuda()
    loaded, errors = Loaded(kernel, cubin, arrays), []
    for _ in range(4):
        out.fill_(float("nan"))
        loaded.run()
        torch.cuda.synchronize()
        errors.append(float((out.double() - wanted).abs().max() / wanted.abs().max()))
    return float(np.max(errors))


def few_values(workload: Any) -> list[dict[str, int]]:
    """Return all choices that can run of the values of `FEW`.

    A space asks its filter about all at once: one by one, half a million took minutes.
    """
    space, options = ConfigSpace(), workload.candidates
    for name in reversed(options):  # of a space the first knob varies fastest
        space.define_knob(name, [v for v in options[name] if v in FEW.get(name, options[name])])
    space.multi_filter(
        lambda entities: not workload.violation({k: entities[k].val for k in options})
    )
    every = np.arange(space.range_length)
    digits = space.knobs(every[space.is_valid(every)])
    values = {name: np.array([one.val for one in knob]) for name, knob in space.space_map.items()}
    columns = [values[name][digits[:, at]] for at, name in enumerate(space.names)]
    rows = zip(*(column.tolist() for column in columns[::-1]), strict=True)
    return [dict(zip(options, row, strict=True)) for row in rows]


def found(workload: Any, each: int) -> list[dict[str, int]]:
    """Return the untuned choice, the best by estimate of each tile and split, two of mma.sync."""
    options = workload.candidates
    hopper = [c for c in few_values(workload) if c["wgmma"]]
    tiles: dict[tuple[Any, ...], dict[str, int]] = {}
    for choice in sorted(hopper, key=workload.estimate):
        kind = ("wgmma", "warps_m", "warps", "frags_m", "frags_n", "keys", "chunk", "split")
        tiles.setdefault(tuple(choice.get(k) for k in kind), choice)
    rng = random.Random(0)
    drawn = [{k: rng.choice(v) for k, v in options.items()} | {"wgmma": 0} for _ in range(DRAWN)]
    others = sorted((c for c in drawn if not workload.violation(c)), key=workload.estimate)
    wanted = [workload.default(), *list(tiles.values())[:each], *others[:2]]
    return [c for i, c in enumerate(wanted) if c not in wanted[:i]]


def timed(
    workload: Any, plans: Sequence[tuple[dict[str, int], Future[Any]]], folder: str
) -> dict[str, Any]:
    """Print and return the times of a workload's choices, and of the fastest in turns."""
    bench = Bench(workload, ARCH, 0)
    for choice, one in plans:
        cubin, text = one.result()
        if cubin is None:
            bench.fail(f"nvcc {text[-80:]}")
            continue
        with ends_within(HANGS_S, f"{workload.name} {choice}"):
            try:
                us = bench.measure(workload.kernel(choice).kernel("cuda"), cubin)
                bench.results.append((us, choice))
            except ArithmeticError as error:
                bench.fail(f"{error} {choice}")
    library = captured_rivals(workload.rivals(list(bench.arrays.values())))
    ours = bench.contenders(3, folder)
    rival, *own = race([library, *({name: one} for name, one in ours.items())])
    best = min(own, key=lambda one: one.median)
    default = next((us for us, choice in bench.results if choice == plans[0][0]), None)
    print(
        f"{workload.name:38} {rival.name:20} {rival.median:8.2f} ({rival.low:.2f} to "
        f"{rival.high:.2f})  untuned {default or float('nan'):8.2f}  ours {best.median:8.2f} "
        f"({best.low:.2f} to {best.high:.2f})  {rival.median / best.median:.2f}x  "
        f"{dict(bench.failures) or ''}",
        flush=True,
    )
    results = sorted(bench.results, key=lambda pair: pair[0])
    return {"name": workload.name, "library_us": rival.median, "ours_us": best.median,
            "untuned_us": default, "all": results, "failures": bench.failures}  # fmt: skip


def workloads_of(part: str) -> Iterator[Any]:
    """Yield the workloads of a part."""
    from autotune.templates.products import gemm_half
    from autotune.templates.products.gemm_shape import Gemm

    from benchmarks.layer_workloads import linear_rivals
    from benchmarks.template_workloads import _workload, workloads

    rivals = partial(linear_rivals, turned=(False, True), gelu=False, tf32=True)
    along_k = Gemm(2048, 2048, 2048, "tf32", 1, False, True)
    known = {one.name: one for one in workloads()}
    known["layer tf32 2048 nt"] = _workload("layer tf32 2048 nt", gemm_half, along_k, rivals)
    for name in PARTS[part]:
        yield known[name]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=["right", *PARTS])
    parser.add_argument("--each", type=int, default=8, help="choices of a workload by wgmma")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as folder:
        if "right" in options.parts and not right(pool, folder):
            raise SystemExit(1)
        for part in (part for part in options.parts if part != "right"):
            plans = []
            for one in workloads_of(part):
                kernel = [(c, one.kernel(c).kernel("cuda")) for c in found(one, options.each)]
                built = [(c, pool.submit(build, k, folder, ARCH)) for c, k in kernel]
                plans.append((one, built))
            rows += [timed(one, built, folder) for one, built in plans]
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
