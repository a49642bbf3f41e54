"""Products of 16-bit floats whose rows are not aligned, in turns with cuBLAS on padded matrices.

    python -m benchmarks.odd_products                        # those of the documentation
    python -m benchmarks.odd_products --drawn 20 --seed 1    # others, drawn at random
    python -m benchmarks.odd_products --drawn 20 --seed 1 --of-few-rows    # from 64 rows on
    python -m benchmarks.odd_products --only "1023 nt" 2047 --each 12
    python -m benchmarks.odd_products --cold                 # after 100 MB were written

Two choices of each product take turns, neither of them tuned: the best by estimate on padded
copies, and the best by estimate that reads the matrices as they are; with ``--each`` so many more
on copies, of which a search would find the best. cuBLAS gets matrices that were padded before, to
multiples of 8, which its caller would have to do. Needs torch and a Hopper device.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.few_rows import WRITTEN_BYTES
from benchmarks.half_products import TOLERANCES, Case, arrays_of, best_kinds
from benchmarks.product_races import ARCH, Plan, built, in_turns
from benchmarks.wgmma import HANGS_S, ends_within

TABLE = (
    "2047", "2047x2047x2048", "197x50257x768", "1024x50257x768", "197x50257x769 nt", "2047 nt",
    "197x3073x769", "197x3074x770", "333x2049x511 bfloat16", "197x3071x767", "1023x1025x1027",
    "1028", "1000x1001x1003", "1023", "1023 nt", "2050", "2500x2502x2506",
)  # fmt: skip
LEAST, MOST = 900, 1600
# Sizes of those from 64 rows on: few rows by a large b, long sums, and middle ones.
SIZES = (
    ((64, 513), (1200, 8001), (1200, 8001)),
    ((64, 701), (400, 3001), (1500, 8001)),
    ((900, 2701), (900, 2701), (900, 2701)),
)
HEAD = (
    "| product | cuBLAS, padded | on padded copies | as they are | untuned | padded / untuned "
    "| best | padded / best |\n|---|---|---|---|---|---|---|---|"
)


def drawn(count: int, seed: int) -> list[Case]:
    """Return products of odd sizes drawn at random, half of them with b stored as [n, k]."""
    rng = random.Random(seed)
    sizes = [[rng.randrange(LEAST | 1, MOST, 2) for _ in range(3)] for _ in range(count)]
    return [Case(m, n, k, number % 2 > 0) for number, (m, n, k) in enumerate(sizes)]


def drawn_of_few_rows(count: int, seed: int) -> list[Case]:
    """Return up to ``count`` products of 64 rows and more, whose operands have unaligned rows."""
    rng, found = random.Random(seed), list[Case]()
    while len(found) < count:
        m, n, k = (rng.randrange(*sizes) for sizes in SIZES[len(found) % len(SIZES)])
        if n % 8 or k % 8:
            found.append(Case(m, n, k, rng.random() < 0.5))
    return [case for case in found if case.k % 8 or not case.turned]


def choices(case: Case, each: int) -> tuple[Any, dict[str, dict[str, int]]]:
    """Return the family of a product's kernels, and choices by their names."""
    from autotune.templates.products import gemm_padded, gemm_unaligned
    from autotune.templates.source import tensor_core_family

    from autotune import Target

    shape, target = case.shape, Target(f"cuda -arch={ARCH}")
    with target:
        family = gemm_padded.Padded(tensor_core_family(gemm_padded.padded(shape)))
    found = {
        "untuned": family.default_choice(shape, target),
        "copies": family.choice_on_copies(shape, target),
    }
    if gemm_unaligned.forms(shape):
        found["as they are"] = gemm_unaligned.default_choice(shape, target)
    others = best_kinds(gemm_padded.padded(shape), each)
    return family, found | {f"other {i}": choice for i, choice in enumerate(others)}


def padded_library(case: Case, a: Any, b: Any) -> Callable[[], Any]:
    """Return a function that calls cuBLAS with padded matrices."""
    import torch

    def whole(size: int) -> int:
        return -(-size // 8) * 8

    wide = torch.zeros((case.m, whole(case.k)), dtype=a.dtype, device="cuda")
    rows = (case.n, case.k) if case.turned else (case.k, case.n)
    tall = torch.zeros([whole(size) for size in rows], dtype=a.dtype, device="cuda")
    wide[:, : case.k], tall[: rows[0], : rows[1]] = a, b
    right = tall.t() if case.turned else tall
    out = torch.empty((case.m, whole(case.n)), dtype=a.dtype, device="cuda")
    return lambda: torch.matmul(wide, right, out=out)


def raced(
    case: Case, named: dict[str, dict[str, int]], plans: Sequence[Plan], seed: int, cold: bool
) -> str:
    """Return the row of a product in the table."""
    import torch

    a, b = arrays_of(case, seed)
    wanted = a.double() @ (b.t() if case.turned else b).double()
    tolerance = TOLERANCES[case.dtype]
    before = torch.empty(WRITTEN_BYTES // 4, device="cuda").zero_ if cold else None
    library = padded_library(case, a, b)
    found = in_turns(str(case), (a, b), wanted, tolerance, plans, library, before)
    for choice, text in found["failures"]:
        print(f"  {text} {choice}", flush=True)
    cells = [str(case).replace(" nt", ", nt"), f"{found['cublas']:.2f}"]
    for name in ("copies", "as they are", "untuned"):
        us = next((us for us, choice in found["times"] if choice == named.get(name)), None)
        cells.append("" if us is None else f"{us:.2f}")
    best = min(us for us, _ in found["times"])
    ratios = [f"{found['cublas'] / us:.2f}" for us in (found["untuned"], best)]
    untuned, tuned = (ratio if float(ratio) >= 1 else f"**{ratio}**" for ratio in ratios)
    return f"| {' | '.join([*cells, untuned, f'{best:.2f}', tuned])} |"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="PRODUCT", help="such as '1023 nt'")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="race N others instead")
    parser.add_argument("--of-few-rows", action="store_true", help="draw from 64 rows on")
    parser.add_argument("--each", type=int, default=0, metavar="N", help="choices more of each")
    parser.add_argument("--cold", action="store_true", help="write 100 MB before each product")
    parser.add_argument("--seed", type=int, default=0, help="of drawn sizes, and of numbers")
    options = parser.parse_args(argv)
    cases = [Case.of(name) for name in options.only or TABLE]
    if options.drawn:
        draw = drawn_of_few_rows if options.of_few_rows else drawn
        cases = draw(options.drawn, options.seed)
    with ThreadPoolExecutor(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as folder:
        planned = []
        for case in cases:
            family, named = choices(case, options.each)
            distinct = [c for i, c in enumerate(named.values()) if c not in [*named.values()][:i]]
            kernels = [(c, family.kernel(case.shape, c).kernel("cuda")) for c in distinct]
            plans = [(c, k, pool.submit(built, k, Path(folder))) for c, k in kernels]
            planned.append((case, named, plans))
        print(HEAD)
        for case, named, plans in planned:
            with ends_within(HANGS_S, case):
                print(raced(case, named, plans, options.seed, options.cold), flush=True)


if __name__ == "__main__":
    main()
