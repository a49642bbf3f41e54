"""Products of 16-bit floats, TF32 and integers on Hopper, untuned and best, in turns with cuBLAS.

    python -m benchmarks.half_products             # those of docs/benchmarks_products_16bit.md
    python -m benchmarks.half_products --drawn 15 --seed 1   # others, drawn at random
    python -m benchmarks.half_products --drawn 15 --across      # with a as [k, m]
    python -m benchmarks.half_products --only "1024x768x3072 nt" 768 --each 40 --out raced.jsonl

Of each product what runs untuned takes turns with cuBLAS (of integers with the faster one of its
int8 and its float16), with the choices that the estimate of `gemm_tma` likes best, one for each
shape of tile and form of blocks, with the best of the kernels without boxes, and of integers with
that of `gemm_skinny_int8`. Each is verified against a product in float64 first. Kernels that were
built in ``--folder`` before are not built again, products in ``--out`` not raced again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cubin import Replays
from benchmarks.product_races import ARCH, WARM, Plan, in_turns, parser_of, race_all, untuned
from benchmarks.rivals import set_up

# How many rows of tiles run side by side, and slots of a ring: values that are worth their time.
BANDS = {"band": [8, 4, 2, 1], "stages": [8, 6, 5, 4, 3]}
# "nt" has the second matrix as [n, k]; one number is that of rows, columns and terms of a sum.
TABLE = (
    "768 nt", "1000 nt", "1000", "1024 nt", "1024", "1200 nt", "1280 nt", "1280", "1408", "1536",
    "1536 nt", "1792", "2048 nt", "2048", "2304 nt", "2304", "2560", "2816 nt", "3072", "3072 nt",
    "4096", "4096 nt",
    "197x3072x768 nt", "197x3072x768", "197x3072x768 nt bfloat16", "577x2304x768 nt",
    "577x2304x768", "300x5000x600", "300x4608x3584 nt", "512x512x2048 nt", "512x512x8192",
    "512x4096x1024 nt", "600x1000x3000", "640x640x2560 nt", "768x3072x768 nt", "904x1104x1304",
    "1000x2000x1000 nt", "1024x768x3072 nt", "1024x768x3072", "1024x2304x768",
    "1024x4096x1024 nt", "1024x1024x2048 nt", "1024x1024x4096 nt", "1024x1024x8192 nt",
    "1536x3072x768 nt", "2048x1024x4096 nt", "2048x8192x2048 nt", "3584x2048x1024 nt",
    "4096x1024x1024", "256x256x2560 nt", "320x256x2240", "384x1024x4096 nt",
    "600x1000x3000 nt", "704x1216x3136 bfloat16", "768x768x3072 nt", "1024 nt int8",
    "2048 nt int8", "4096x1024x1024 nt int8", "1024x1024x4096 nt int8",
)  # fmt: skip
# Sizes of drawn products, and how many multiply-adds they have at most.
LEAST, MOST, LARGEST = 192, 4096, 2**34
# Knobs by which choices are told apart: of the others the best by estimate is raced.
KIND = ("wgmma", "warps_m", "frags_m", "frags_n", "chunk", "split")
# How a and b stand: "t" for [k, m] and for [n, k].
LAYOUTS = ("nn", "nt", "tn", "tt")
TOLERANCES = {"float16": 4e-3, "bfloat16": 2e-2, "tf32": 4e-3, "int8": 0.0}


@dataclass(frozen=True)
class Case:
    """A product: its sizes, how b and a stand, and what numbers are."""

    m: int
    n: int
    k: int
    turned: bool
    dtype: str = "float16"
    left_turned: bool = False

    @classmethod
    def of(cls, name: str) -> Case:
        """Return the product of a name such as "1024x768x3072 nt bfloat16" or "768"."""
        sizes, *words = name.split()
        m, n, k = map(int, sizes.split("x")) if "x" in sizes else [int(sizes)] * 3
        layout = next((word for word in words if word in LAYOUTS), "nn")
        dtype = next((word for word in words if word not in LAYOUTS), "float16")
        return cls(m, n, k, layout[1] == "t", dtype, layout[0] == "t")

    def __str__(self) -> str:
        sizes = f"{self.m}" if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        layout = "nt"[self.left_turned] + "nt"[self.turned]
        return (
            sizes + f" {layout}" * (layout != "nn") + f" {self.dtype}" * (self.dtype != "float16")
        )

    @property
    def shape(self) -> Any:
        """The template's shape."""
        from autotune.templates.products.gemm_shape import Gemm

        return Gemm(self.m, self.n, self.k, self.dtype, 1, self.left_turned, self.turned)

    def operands(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Return views of two stored matrices as [m, k] and [k, n]."""
        return a.t() if self.left_turned else a, b.t() if self.turned else b


def drawn(count: int, seed: int) -> list[Case]:
    """Return products of sizes drawn at random, half of them of multiples of 64."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        step = rng.choice([8, 64])
        m, n, k = (round(LEAST * (MOST / LEAST) ** rng.random() / step) * step for _ in range(3))
        case = Case(m, n, k, rng.random() < 0.5, rng.choice(["float16", "bfloat16"]))
        if m * n * k <= LARGEST:
            found.append(case)
    return found


def drawn_across(count: int, seed: int) -> list[Case]:
    """Return products with a as [k, m]: of few rows of 16-bit floats, and of more of integers."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        dtype = rng.choice(["float16", "bfloat16", "int8", "int8"])
        step, least, most = (16, 72, 1024) if dtype == "int8" else (8, 8, 56)
        m = round(least * (most / least) ** rng.random() / 8) * 8
        n, k = (round(256 * 40 ** rng.random() / step) * step for _ in range(2))
        if m * n * k <= LARGEST:
            found.append(Case(m, n, k, rng.random() < 0.4, dtype, left_turned=True))
    return found


def best_kinds(shape: Any, each: int) -> list[dict[str, int]]:
    """Return the best choices by boxes of ``each`` kinds, as the estimate has it."""
    from autotune.templates import choices
    from autotune.templates.products import gemm_tma, gemm_tma_rules

    from autotune import Target

    target = Target(f"cuda -arch={ARCH}")
    options = gemm_tma.candidates(shape) | BANDS
    rules = partial(gemm_tma_rules.rules, shape=shape, target=target)
    good = choices.all_valid(options, rules)
    kinds: dict[tuple[int, ...], dict[str, int]] = {}
    for place in np.argsort(gemm_tma.estimate(shape, good, target), kind="stable"):
        if len(kinds) == each:
            break
        choice = {name: int(values[place]) for name, values in good.items()}
        kinds.setdefault(tuple(choice[name] for name in KIND), choice)
    return list(kinds.values())


def liked(shape: Any, each: int, target: Any) -> Iterator[tuple[dict[str, int], Any]]:
    """Yield the best choices by boxes, that without, and those for few rows."""
    from autotune.templates.products import (
        gemm_half,
        gemm_int8,
        gemm_skinny,
        gemm_skinny_int8,
        gemm_tma,
    )

    if gemm_tma.refusal(shape) is None:
        forms = (None, 0, 1) if shape.transpose_a and shape.dtype != "int8" else (None,)
        for choice in [
            *(gemm_tma.default_choice(shape, target, swapped=swapped) for swapped in forms),
            gemm_half.choice_without_tma(shape, target), *best_kinds(shape, each),
        ]:  # fmt: skip
            if gemm_half.violation_in_family(shape, choice, target) is None:
                yield choice, gemm_half.kernel(shape, choice)
    elif shape.dtype == "int8":
        family = gemm_int8.AlongK(gemm_half)
        for way in (gemm_int8.on_copies, gemm_int8.as_they_are):
            choice = way(shape, target)[1]
            if choice:
                yield choice, family.kernel(shape, choice)
    for streamed in (gemm_skinny, gemm_skinny_int8):
        if streamed.refusal(shape) is None:
            choice = streamed.default_choice(shape, target)
            yield choice, streamed.kernel(shape, choice)


def arrays_of(case: Case, seed: int) -> tuple[Any, Any]:
    """Return a and b on the device, of normal numbers or small integers."""
    import torch
    from autotune.templates.products.gemm_shape import stored

    rng, found = np.random.default_rng(seed), []
    stands = (case.k, case.m) if case.left_turned else (case.m, case.k)
    for shape in (stands, (case.n, case.k) if case.turned else (case.k, case.n)):
        integers = case.dtype == "int8"
        numbers = rng.integers(-9, 9, shape, np.int8) if integers else rng.standard_normal(
            shape, np.float32)  # fmt: skip
        dtype = getattr(torch, stored(case.dtype))
        found.append(torch.from_numpy(numbers).to(dtype).cuda())
    return found[0], found[1]


def library(case: Case, a: Any, b: Any) -> Any:
    """Return a function that calls cuBLAS; for integers with the faster of two types."""
    import torch

    set_up(torch, tf32=case.dtype == "tf32")
    left, right = case.operands(a, b)
    if case.dtype != "int8":
        out = torch.empty((case.m, case.n), dtype=a.dtype, device="cuda")
        return lambda: torch.matmul(left, right, out=out)
    halves = case.operands(a.half(), b.half())
    ways: list[Callable[[], Any]] = [lambda: torch.matmul(*halves)]
    try:
        torch._int_mm(left, right)
    except RuntimeError:
        pass  # of up to 16 rows, or of sizes that 8 does not divide
    else:
        ways.append(lambda: torch._int_mm(left, right))
    return min(ways, key=lambda way: min(Replays(way).microseconds() for _ in range(WARM)))


def raced(case: Case, plans: Sequence[Plan], seed: int) -> dict[str, Any]:
    """Return the median times of cuBLAS and of the kernels of a product, in turns."""
    a, b = arrays_of(case, seed)
    left, right = case.operands(a, b)
    wanted = left.double() @ right.double()
    return in_turns(str(case), (a, b), wanted, TOLERANCES[case.dtype], plans, library(case, a, b))


def plans_of(case: Case, each: int, build: Callable[[Any], Any]) -> list[Plan]:
    """Return the choices of a product, their kernels, and the cubins that are being built."""
    from autotune import Target

    shape, target = case.shape, Target(f"cuda -arch={ARCH}")
    first, kernel = untuned(shape, target)
    found: dict[str, tuple[dict[str, Any], Any]] = {kernel.source: (first, kernel)}
    for choice, source in liked(shape, each, target):
        other = source.kernel("cuda")
        found.setdefault(other.source, (choice, other))
    return [(choice, kernel, build(kernel)) for choice, kernel in found.values()]


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__, "1024x768x3072 nt", each=12)
    parser.add_argument("--across", action="store_true", help="draw those with a as [k, m]")
    options = parser.parse_args(argv)
    cases = [Case.of(name) for name in options.only or TABLE]
    if options.drawn:
        draw = drawn_across if options.across else drawn
        cases = draw(options.drawn, options.seed)
    race_all(
        options,
        cases,
        lambda case, build: plans_of(case, options.each, build),
        lambda case, plans: raced(case, plans, options.seed),
        lambda first: str(first[0]["family"]),
    )


if __name__ == "__main__":
    main()
