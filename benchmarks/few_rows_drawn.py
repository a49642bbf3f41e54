"""Products of few rows, drawn at random: every template that serves each, in turns with cuBLAS.

    python -m benchmarks.few_rows_drawn --drawn 60 --seed 1
    python -m benchmarks.few_rows_drawn --rows 5 12 --layouts nt --dtypes float32
    python -m benchmarks.few_rows_drawn --only "8x33000x1504 nn float16" "12x50257x768 nt"

Of each product stand the times of cuBLAS by weights as they are, by weights stored the other way,
and by matrices that are padded where rows of 16-bit floats are not aligned to 16 bytes (the
fastest of matmul, mv and cuBLASLt), of what runs untuned, and of the untuned choice of
each other template that serves it, hot and cold as in `few_rows`. Each kernel is verified against
float64 first. ``--build-only`` builds kernels into ``--folder``, ``--out`` gets a line of JSON for
each product, and none is begun after ``--seconds``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cubin import Replays, Time, race
from benchmarks.few_rows import (
    LIBRARY,
    WRITING,
    WRITTEN_BYTES,
    Ways,
    check_device,
    libraries,
)
from benchmarks.half_products import Case
from benchmarks.product_races import ARCH, Plan, built, in_order, untuned, verified
from benchmarks.rivals import set_up
from benchmarks.wgmma import HANGS_S, ends_within

ROWS, LEAST_BYTES, MOST_BYTES = (1, 32), 2 * 10**6, 200 * 10**6
TERMS = (256, 16384)
# Of drawn products: every other one is of float32, and as many of 16-bit floats.
DTYPES = ("float32", "float16", "float32", "bfloat16")
LAYOUTS, ALL_LAYOUTS = ("nt", "nn", "nt", "nn", "tn"), ("nn", "nt", "tn", "tt")
TOLERANCES = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}
CHOOSING, ROUNDS = 5, 9
OTHER, PADDED = f"{LIBRARY}, other layout", f"{LIBRARY}, padded"


def drawn(options: argparse.Namespace) -> list[Case]:
    """Return products of sizes drawn evenly by logarithms; a third has rows of any length."""
    rng, found = random.Random(options.seed), list[Case]()

    def between(low: int, high: int) -> int:
        return round(low * math.pow(high / low, rng.random()))

    while len(found) < options.drawn:
        dtype = options.dtypes[len(found) % len(options.dtypes)]
        layout, m = rng.choice(options.layouts), between(*options.rows)
        step = rng.choice([1, 1 if options.unaligned else 8, 1 if options.unaligned else 8])
        k = max(step, between(*TERMS) // step * step)
        elements = between(LEAST_BYTES, MOST_BYTES) / (4 if dtype == "float32" else 2)
        n = max(64, round(elements / k / step) * step)
        found.append(Case(m, n, k, layout[1] == "t", dtype, layout[0] == "t" and m > 1))
    return found


def name_of(case: Case) -> str:
    """Return sizes, layout and type, of every one."""
    layout = "nt"[case.left_turned] + "nt"[case.turned]
    return f"{case.m}x{case.n}x{case.k} {layout} {case.dtype}"


def families(shape: Any, target: Any) -> Iterator[tuple[str, Any, dict[str, int]]]:
    """Yield the templates that serve a product, each with its untuned choice."""
    from autotune.templates.products import (
        gemm_bf16x3_fused,
        gemm_cuda,
        gemm_half,
        gemm_padded,
        gemm_skinny,
        gemm_skinny_across,
        gemm_skinny_unaligned,
        gemm_tma,
        matvec_across,
        matvec_cuda,
        matvec_unaligned,
    )

    along = shape.transpose_b and not shape.transpose_a
    if along and shape.m <= matvec_cuda.MOST_ROWS:
        yield "matvec", matvec_cuda, matvec_cuda.default_choice(shape, target)
        if matvec_unaligned.suits(shape):
            shifted = matvec_unaligned.untuned(shape) | {"resident_mb": 0}
            yield "matvec_unaligned", matvec_cuda, shifted
    if shape.dtype == "float32":
        if matvec_across.refusal(shape) is None:
            yield "matvec_across", matvec_across, matvec_across.default_choice(shape, target)
        for family in (gemm_cuda, gemm_bf16x3_fused):
            name = family.__name__.rpartition(".")[2]
            yield name, family, family.default_choice(shape, target)
        return
    if shape.b_run % 8:
        copied = gemm_padded.is_needed(shape) or gemm_padded.gains(shape, target)
        others: Any = gemm_padded.Padded(gemm_half) if copied else gemm_half
        yield "on copies" if copied else "in tiles", others, others.default_choice(shape, target)
        for by_class in (gemm_skinny_across, gemm_skinny_unaligned):
            if by_class.refusal(shape) is None:
                name = by_class.__name__.rpartition(".")[2]
                yield name, by_class, by_class.default_choice(shape, target)
    elif shape.transpose_a and shape.a_run % 8 == 0:
        yield "without TMA", gemm_half, gemm_half.choice_without_tma(shape, target)
    if gemm_skinny.refusal(shape) is None:
        yield "gemm_skinny", gemm_skinny, gemm_skinny.default_choice(shape, target)
    if gemm_tma.refusal(shape) is None:
        for swapped in (0, 1) if shape.m > 8 else (1,):
            choice = gemm_tma.default_choice(shape, target, swapped=swapped)
            yield f"gemm_tma {swapped}", gemm_tma, choice


def plans_of(case: Case, pool: ThreadPoolExecutor, folder: Path) -> list[Plan]:
    """Return the untuned choice of a product and those of all templates, whose builds begin."""
    from autotune import Target

    target, shape = Target(f"cuda -arch={ARCH}"), case.shape
    _, first = untuned(shape, target)
    found: dict[str, tuple[dict[str, Any], Any]] = {first.source: ({"name": "untuned"}, first)}
    for name, family, choice in families(shape, target):
        if family.violation(shape, choice, target) is None:
            kernel = family.kernel(shape, choice).kernel("cuda")
            known = found.setdefault(kernel.source, ({"name": name}, kernel))[0]
            known["family"] = name
    return [(known, one, pool.submit(built, one, folder)) for known, one in found.values()]


def padded(case: Case, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return the operands with zeros, so that 8 divides all rows, and a matrix for the result."""
    import torch

    def filled(x: Any, rows: bool) -> Any:
        return torch.nn.functional.pad(x, (0, -x.shape[1] % 8, 0, -x.shape[0] % 8 * rows))

    left, right = case.operands(filled(a, case.left_turned), filled(b, True))
    return left, right, torch.empty((left.shape[0], right.shape[1]), dtype=a.dtype, device="cuda")


def raced(case: Case, plans: Sequence[Plan], seed: int) -> dict[str, Any]:
    """Return the times of all sides, hot and cold; of cold ones less that of writing."""
    import torch

    set_up(torch)
    rng = torch.Generator("cuda").manual_seed(seed)
    dtype, shape = getattr(torch, case.dtype), case.shape
    a, b = (torch.randn(s, generator=rng, device="cuda").to(dtype) for s in shape.shapes[:2])
    left, right = case.operands(a, b)
    other = right.t().contiguous().t() if not case.turned else right.contiguous()
    out = torch.empty(shape.shapes[2], dtype=dtype, device="cuda")
    ways: dict[str, Ways] = {
        LIBRARY: list(libraries(left, right, out)),
        OTHER: list(libraries(left, other, out)),
    }
    if case.dtype != "float32" and (shape.a_run % 8 or shape.b_run % 8):
        ways[PADDED] = list(libraries(*padded(case, a, b)))
    failures = list[Any]()
    wanted = left.double() @ right.double()
    good = list(verified((a, b), wanted, TOLERANCES[case.dtype], plans, failures))
    del wanted
    names = {"untuned": good[0][0].get("family", "another")} if good else {}
    for known, loaded, _ in good:
        ways[known["name"]] = [loaded.run]
    written = torch.empty(WRITTEN_BYTES // 4, device="cuda")
    runs: dict[str, dict[str, Replays]] = {WRITING: {"": Replays(written.zero_)}}
    for name, each in ways.items():
        after: Ways = [partial(in_order, written.zero_, way) for way in each]
        states: dict[str, Ways] = {"hot": each, "cold": after}
        for state, those in states.items():
            runs[f"{state} {name}"] = {str(i): Replays(way) for i, way in enumerate(those)}
    times: dict[str, Time] = dict(
        zip(runs, race(list(runs.values()), CHOOSING, ROUNDS), strict=True)
    )
    runs.clear()
    for _, loaded, _ in good:
        loaded.unload()
    cold = times.pop(WRITING).median
    us = {
        name: round(one.median - (cold if name.startswith("cold") else 0), 2)
        for name, one in times.items()
    }
    return {"case": name_of(case), "us": us, "by": names.get("untuned", ""),
            "failures": [(str(known), text) for known, text in failures]}  # fmt: skip


def line(result: Mapping[str, Any]) -> str:
    """Return a product's times, hot and cold in the order of its sides."""
    us, cells = result["us"], [f"{result['case']} by {result['by']}"]
    names = [name.removeprefix("hot ") for name in us if name.startswith("hot ")]
    cells += [f"{name} {us[f'hot {name}']} {us[f'cold {name}']}" for name in names]
    return " | ".join(cells)


def main(argv: Sequence[str] | None = None) -> None:
    """Build the kernels, then race them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="PRODUCT", help="such as '8x4096x4096 nt'")
    parser.add_argument("--drawn", type=int, default=60, metavar="N", help="how many to draw")
    parser.add_argument("--seed", type=int, default=0, help="of drawn sizes, and of numbers")
    parser.add_argument("--folder", type=Path, help="where kernels are kept")
    parser.add_argument("--build-only", action="store_true", help="for a later race")
    parser.add_argument("--out", type=Path, help="file for the results, a line of JSON each")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which none is begun")
    parser.add_argument("--rows", type=int, nargs=2, default=ROWS, help="the least and the most")
    parser.add_argument("--layouts", nargs="+", choices=ALL_LAYOUTS, default=LAYOUTS)
    parser.add_argument("--dtypes", nargs="+", choices=list(TOLERANCES), default=DTYPES)
    parser.add_argument("--unaligned", action="store_true", help="rows of any length only")
    options = parser.parse_args(argv)
    if not options.build_only:
        check_device()
    begun, only = time.monotonic(), [name.replace("float32", "") for name in options.only or []]
    cases = [_of(name) for name in only] or drawn(options)
    with ThreadPoolExecutor(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        every = [plans_of(case, pool, folder) for case in cases]
        for case, plans in zip(cases, [] if options.build_only else every, strict=False):
            if time.monotonic() - begun > options.seconds:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            with ends_within(HANGS_S, case):
                result = raced(case, plans, options.seed)
            print(line(result), flush=True)
            for choice, text in result["failures"]:
                print(f"  {text} {choice}", flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(result) + "\n")


def _of(name: str) -> Case:
    words = name.split()
    is_half = any(word in TOLERANCES for word in words)
    return Case.of(name if is_half else f"{name} float32")


if __name__ == "__main__":
    main()
