"""Races of kernels of one product with cuBLAS: built once, verified, then timed in turns."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.cubin import Loaded, Replays, build
from benchmarks.wgmma import HANGS_S, ends_within

T = TypeVar("T")
# A choice of knobs, its kernel, and its cubin, or the compiler's text, once it is built.
Plan = tuple[dict[str, Any], Any, Future[tuple[Path | None, str]]]
ARCH, WARM, ROUNDS, LAUNCHES = "sm_90", 3, 21, 20
# How names of kernels begin that run before a product: they pack, pad or transpose operands.
BEFORE = ("pack", "pad", "along_k")


def built(kernel: Any, folder: Path) -> tuple[Path | None, str]:
    """Return the cubin of a kernel, compiled unless it was, or the compiler's text."""
    path = folder / (hashlib.sha256(kernel.source.encode()).hexdigest()[:24] + ".cubin")
    if path.exists():
        return path, ""
    cubin, text = build(kernel, str(folder), ARCH)
    if cubin:
        os.replace(cubin, path)
    return (path if cubin else None), text


def untuned(shape: Any, target: Any) -> tuple[dict[str, Any], Any]:
    """Return what runs where nothing was tuned: its knobs and the product's kernel, and all."""
    from autotune.task import create

    args = (shape.m, shape.n, shape.k, shape.dtype, shape.batch)
    task = create("gemm.cuda", (*args, shape.transpose_a, shape.transpose_b), target)
    default = task.default()
    kernel = task.instantiate(default).kernel("cuda")
    knobs = {name: entity.val for name, entity in default.recorded.items()}
    entries = [one.entry for one in kernel.calls]
    family = next(entry for entry in entries if not entry.startswith(BEFORE))
    return {"family": family, **knobs}, kernel


def verified(
    operands: Sequence[Any], wanted: Any, tolerance: float, plans: Sequence[Plan],
    failures: list[Any],
) -> Iterator[tuple[dict[str, Any], Loaded, dict[str, Any]]]:  # fmt: skip
    """Yield the choices whose results are right, loaded; what fails is added to ``failures``."""
    import torch

    bound = tolerance * float(wanted.abs().max())
    for choice, kernel, building in plans:
        cubin, text = building.result()
        if cubin is None:
            failures.append((choice, f"nvcc: {text[-200:]}"))
            continue
        dtype = getattr(torch, kernel.args[-1].dtype)
        out = torch.full(wanted.shape, -1, dtype=dtype, device="cuda")
        arrays = dict(zip((one.name for one in kernel.args), (*operands, out), strict=True))
        for one in kernel.workspace:
            of = getattr(torch, one.dtype)
            arrays[one.name] = torch.empty(one.shape, dtype=of, device="cuda")
        loaded = Loaded(kernel, cubin, arrays)
        for _ in range(LAUNCHES):
            loaded.run()
        torch.cuda.synchronize()
        error = float((out.double() - wanted).abs().max())
        if not error <= bound:
            failures.append((choice, f"wrong answer, error {error:.2e}, bound {bound:.2e}"))
            continue
        yield choice, loaded, arrays  # kernels keep addresses, not arrays


def in_turns(
    name: str, operands: Sequence[Any], wanted: Any, tolerance: float, plans: Sequence[Plan],
    library: Callable[[], Any], before: Callable[[], Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the median times of a library and of the kernels that are right.

    Args:
        wanted: the result, of float64.
        tolerance: of errors, relative to the largest result.
        plans: the untuned choice first.
        before: what runs before each of them, such as a write of more than the L2 cache holds; its
            own time, as it takes its turn, does not count.
    """
    failures: list[Any] = []
    good = list(verified(operands, wanted, tolerance, plans, failures))
    ways = [library, *(loaded.run for _, loaded, _ in good)]
    if before is not None:
        ways = [*(partial(in_order, before, way) for way in ways), before]
    runs = [Replays(way) for way in ways]
    taken: list[list[float]] = [[] for _ in runs]
    for number in range(WARM + ROUNDS):
        for place in range(len(runs)):
            at = (number + place) % len(runs)
            taken[at].append(runs[at].microseconds())
    runs.clear()
    for _, loaded, _ in good:
        loaded.unload()
    medians = [float(np.median(each[WARM:])) for each in taken]
    less = 0.0 if before is None else medians.pop()
    cublas, *ours = (median - less for median in medians)
    times = [(us, choice) for us, (choice, *_) in zip(ours, good, strict=True)]
    untuned = next((us for us, choice in times if choice == plans[0][0]), float("nan"))
    return {"case": name, "cublas": cublas, "untuned": untuned, "times": times,
            "failures": failures}  # fmt: skip


def in_order(*runs: Callable[[], Any]) -> None:
    """Run some functions, one after another."""
    for run in runs:
        run()


def row(result: Mapping[str, Any]) -> str:
    """Return a row of a table: cuBLAS, the best and the untuned choice."""
    cublas, cells = result["cublas"], [result["case"].replace(" nt", ", nt")]
    cells.append(f"{cublas:.2f}")
    for us in (min(us for us, _ in result["times"]), result["untuned"]):
        ratio = f"{cublas / us:.2f}"
        cells += [f"{us:.2f}", ratio if float(ratio) >= 1 else f"**{ratio}**"]
    return f"| {' | '.join(cells)} |"


def parser_of(doc: str | None, example: str, each: int) -> argparse.ArgumentParser:
    """Return the options that such benchmarks share; a product is written like ``example``."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="PRODUCT", help=f"such as '{example}'")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="race N others instead")
    parser.add_argument("--seed", type=int, default=0, help="of drawn sizes, and of numbers")
    parser.add_argument("--each", type=int, default=each, help="choices by estimate")
    parser.add_argument("--folder", type=Path, help="where kernels are kept")
    parser.add_argument("--build-only", action="store_true", help="for a later race")
    parser.add_argument("--out", type=Path, help="file for the results, a line of JSON each")
    return parser


def race_all(
    options: argparse.Namespace,
    cases: Sequence[T],
    plans_of: Callable[[T, Callable[[Any], Any]], list[Plan]],
    raced: Callable[[T, Sequence[Plan]], Mapping[str, Any]],
    label: Callable[[Plan], str] = lambda plan: "",
) -> None:
    """Build the kernels of products that ``--out`` has no result of, then race them.

    Args:
        options: as `parser_of` reads them.
        cases: the products.
        plans_of: returns the choices of a product, the untuned one first; it gets what starts the
            build of a kernel.
        raced: returns the times of a product; see `in_turns`.
        label: what is printed of the untuned choice behind a row.
    """
    if options.out and options.out.exists():
        done = {json.loads(line)["case"] for line in options.out.read_text().splitlines()}
        cases = [case for case in cases if str(case) not in done]
    with ThreadPoolExecutor(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        every = [
            plans_of(case, lambda kernel: pool.submit(built, kernel, folder)) for case in cases
        ]
        for case, plans in zip(cases, [] if options.build_only else every, strict=False):
            with ends_within(HANGS_S, case):
                result = raced(case, plans)
            print(row(result), label(plans[0]), flush=True)
            for choice, text in result["failures"]:
                print(f"  {text} {choice}", flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
