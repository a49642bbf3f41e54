"""Products of few rows of float32, weights stored both ways, in turns with cuBLAS, hot and cold.

    python -m benchmarks.few_rows                  # those of docs/benchmarks_products.md
    python -m benchmarks.few_rows --only 1x4096x4096 --trials 300      # tuned, too

Of each product stand the times by weights stored as [n, k] ("nt") and as [k, n] ("nn"): of the
fastest of cuBLAS's matmul and mv and cuBLASLt, of what runs untuned, and with ``--trials`` of the
best of so many trials. All of them take turns. Hot is the same weights again; before a cold run
100 MB are written, whose time, taken alone in the same turns, is subtracted. Each kernel is
verified against float64 first. Needs torch, nvcc and one device.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cubin import Loaded, Replays, Time, race
from benchmarks.float_products import TOLERANCE, Case
from benchmarks.product_races import ARCH, Plan, built, in_order, untuned, verified
from benchmarks.rivals import by_cublaslt, set_up
from benchmarks.wgmma import HANGS_S, ends_within

TABLE = tuple(
    f"{rows}x{weights}" for weights in ("4096x4096", "1000x512", "4096x11008")
    for rows in (1, 4, 8, 16)
)  # fmt: skip
LAYOUTS, STATES, OURS = ("nt", "nn"), ("hot", "cold"), ("untuned", "tuned")
CHOOSING, ROUNDS = 7, 15
WRITTEN_BYTES = 100 * 10**6
WRITING, LIBRARY = "writing", "cuBLAS"
Ways = list[Callable[[], Any]]
# Choices and kernels of a product by layout.
Chosen = dict[str, list[tuple[dict[str, Any], Any]]]


def head(sides: Sequence[str]) -> str:
    """Return the head of the table; ``sides`` are those of ours."""
    last = sides[-1]
    each_state = (LIBRARY, *sides, f"{LIBRARY} / {last}", f"its faster layout / {last}")
    columns = ["product", *(f"{state}: {each}" for state in STATES for each in each_state)]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def product(text: str) -> str:
    """Return the name of a product, if it is one.

    Raises:
        argparse.ArgumentTypeError: it is none, or says how operands are stored.
    """
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){2}", text):
        raise argparse.ArgumentTypeError(f"expected ROWSxNxK such as 8x4096x4096, got {text!r}")
    return text


def count(text: str) -> int:
    """Return a number of trials, if it is one.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)


def check_device() -> None:
    """Raise `SystemExit` if PyTorch has no device to race on, before anything is built."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no CUDA device, on which these races run")


def case_of(name: str, layout: str) -> Case:
    """Return a product by weights that are stored so."""
    return replace(Case.of(name), transpose_b=layout == "nt")


def tuned(shape: Any, trials: int, seed: int, session: Any) -> tuple[dict[str, Any], Any]:
    """Return the best of so many trials, and its kernel."""
    from autotune.task import ConfigEntity, create
    from autotune.tuner import AutoTuner

    args = (shape.m, shape.n, shape.k, shape.dtype, 1, shape.transpose_a, shape.transpose_b)
    task = create("gemm.cuda", args, f"cuda -arch={ARCH}")
    best = AutoTuner(task, seed=seed).tune(trials, session).best_config
    if not isinstance(best, ConfigEntity):
        raise SystemExit(f"{args}: none of {trials} trials ran")
    return {"trials": trials}, task.instantiate(best).kernel("cuda")


def kernels_of_all(cases: Sequence[str], options: argparse.Namespace) -> dict[str, Chosen]:
    """Return the choices of products and their kernels by layout, the untuned ones first."""
    from autotune import LocalBuilder, LocalRunner, Session, Target

    target = Target(f"cuda -arch={ARCH}")
    shapes = {name: {each: case_of(name, each).shape for each in LAYOUTS} for name in cases}
    found = {
        name: {layout: [untuned(shape, target)] for layout, shape in both.items()}
        for name, both in shapes.items()
    }
    if not options.trials:
        return found
    with Session(LocalBuilder(timeout=30), LocalRunner(timeout=20)) as session:
        for name, both in shapes.items():
            for layout, shape in both.items():
                best = tuned(shape, options.trials, options.seed, session)
                found[name][layout].append(best)
    return found


def libraries(a: Any, right: Any, out: Any) -> Iterator[Callable[[], Any]]:
    """Yield the ways that PyTorch has for a product."""
    import torch

    multiply = partial(torch.matmul, a, right, out=out)
    yield multiply
    yield by_cublaslt(multiply)
    if len(a) == 1:
        yield partial(torch.mv, right.t(), a[0], out=out[0])


@dataclass(frozen=True)
class Side:
    """A contender: the ways it has, and the kernel and arrays that these need."""

    name: str
    ways: Ways
    kernel: Loaded | None = None
    arrays: Any = None


def sides_of(name: str, plans: Mapping[str, Sequence[Plan]], seed: int) -> Iterator[Side]:
    """Yield cuBLAS and the kernels of a product in both layouts.

    Raises:
        SystemExit: a kernel cannot be built, or its result is wrong.
    """
    import torch

    rng = torch.Generator("cuda").manual_seed(seed)
    for layout in LAYOUTS:
        shapes = case_of(name, layout).shape.shapes
        a, b = (torch.randn(size, generator=rng, device="cuda") for size in shapes[:2])
        right, failures = b.t() if layout == "nt" else b, list[Any]()
        out = torch.empty(shapes[2], device="cuda")
        yield Side(f"{LIBRARY} {layout}", list(libraries(a, right, out)))
        wanted = a.double() @ right.double()
        good = list(verified((a, b), wanted, TOLERANCE, plans[layout], failures))
        if failures:
            raise SystemExit(f"{name} {layout}: {failures}")
        for ours, (_, loaded, arrays) in zip(OURS, good, strict=False):
            yield Side(f"{ours} {layout}", [loaded.run], loaded, arrays)


def raced(name: str, plans: Mapping[str, Sequence[Plan]], seed: int) -> dict[str, Time]:
    """Return the times of each side, hot and cold; of cold ones less that of writing."""
    import torch

    set_up(torch)
    written = torch.empty(WRITTEN_BYTES // 4, device="cuda")
    runs: dict[str, dict[str, Replays]] = {WRITING: {"": Replays(written.zero_)}}
    sides = list(sides_of(name, plans, seed))
    for side in sides:
        after: Ways = [partial(in_order, written.zero_, way) for way in side.ways]
        for state, ways in (("hot", side.ways), ("cold", after)):
            runs[f"{state} {side.name}"] = {str(i): Replays(way) for i, way in enumerate(ways)}
    times = dict(zip(runs, race(list(runs.values()), CHOOSING, ROUNDS), strict=True))
    runs.clear()
    for side in sides:
        if side.kernel is not None:
            side.kernel.unload()
    return times


def rows(name: str, times: Mapping[str, Time], ours: Sequence[str]) -> Iterator[str]:
    """Yield the rows of a product in the table, one for each layout."""
    for layout in LAYOUTS:
        cells = [f"{name}, {layout}"]
        for state in STATES:
            less = times[WRITING].median if state == "cold" else 0.0
            library = {each: times[f"{state} {LIBRARY} {each}"].median - less for each in LAYOUTS}
            found = [times[f"{state} {side} {layout}"].median - less for side in ours]
            ratios = (f"{us / found[-1]:.2f}" for us in (library[layout], min(library.values())))
            cells += [f"{us:.2f}" for us in (library[layout], *found)]
            cells += [each if float(each) >= 1 else f"**{each}**" for each in ratios]
        yield f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Build the kernels, then race them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", type=product, metavar="PRODUCT", help="such as 8x4096x4096"
    )
    parser.add_argument(
        "--trials", type=count, default=0, metavar="N", help="tune by N trials, too"
    )
    parser.add_argument("--seed", type=int, default=0, help="of tuners, and of numbers")
    options = parser.parse_args(argv)
    check_device()
    cases, ours = options.only or TABLE, OURS[: 1 + bool(options.trials)]
    kernels = kernels_of_all(cases, options)
    print(head(ours), flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as scratch:
        folder, plans = Path(scratch), dict[str, dict[str, list[Plan]]]()
        for name, found in kernels.items():
            plans[name] = {
                layout: [(knobs, one, pool.submit(built, one, folder)) for knobs, one in every]
                for layout, every in found.items()
            }
        for name in cases:
            with ends_within(HANGS_S, name):
                times = raced(name, plans[name], options.seed)
            for row in rows(name, times, ours):
                print(row, flush=True)


if __name__ == "__main__":
    main()
