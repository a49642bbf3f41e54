"""Products of float32 on a GPU, untuned and at best, in turns with cuBLAS without TF32.

    python -m benchmarks.float_products            # those of docs/benchmarks_products.md
    python -m benchmarks.float_products --drawn 30 --seed 1   # others, drawn at random
    python -m benchmarks.float_products --only "8x 267x19x289" "653x729x80 tt" --each 6 --others 6

The untuned choice takes turns with cuBLAS, and with the choices that the estimate of each family
of kernels likes next, and with some that were drawn. Each is verified against float64 first.
Kernels that were built in ``--folder`` before are not built again, products in ``--out`` not raced
again.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.product_races import ARCH, Plan, in_turns, parser_of, race_all, untuned
from benchmarks.rivals import set_up

# "tn" has the first matrix as [k, m], "nt" the second as [n, k]; one number is that of rows,
# columns and terms of a sum, and "8x" before them that of products.
TABLE = (
    "256", "384", "512", "1024", "128x768x768", "700x24x3000", "64x4000x192", "1922x263x223",
    "3642x36x683", "3136x96x384 nt", "784x768x192 nt", "197x768x768 nt", "64x1000x2048 nt",
    "333x777x155", "2500x100x1201 nt", "8x 267x19x289", "8x 500x131x77", "48x 312x59x366 nt",
    "653x729x80 tt", "12x1001x2048 nt", "9x1000x1024 nt", "2049x2047x33", "4096x4096x40",
    "2048x2047x48", "2048x2047x64",
)  # fmt: skip
TOLERANCE = 1e-5
# Multiply-adds and elements that drawn products have at most.
LARGEST, MOST_ELEMENTS = 2**32, 2**25
# Least and most batches, rows, columns and terms of drawn products.
KINDS = (
    ((2, 64), (16, 600), (16, 600), (16, 600)),
    ((2, 64), (64, 600), (8, 100), (16, 600)),
    ((1, 1), (256, 8000), (8, 100), (16, 4096)),
    ((1, 1), (256, 5000), (256, 5000), (16, 96)),
    ((1, 1), (32, 2000), (32, 2000), (16, 4096)),
)
# Knobs by which choices are told apart: of the others the best by estimate is raced.
KIND = (
    "rows", "cols", "threads_m", "threads_n", "slices", "split", "tile_n", "threads", "tile_m",
    "groups", "swapped",
)  # fmt: skip
DRAWN = 20000


@dataclass(frozen=True)
class Case:
    """A product of float32."""

    batch: int
    m: int
    n: int
    k: int
    transpose_a: bool
    transpose_b: bool

    @classmethod
    def of(cls, name: str) -> Case:
        """Return the product of a name such as "8x 312x59x366 nt" or "1024"."""
        found = re.fullmatch(r"(?:(\d+)x )?(\d+)(?:x(\d+)x(\d+))?(?: ([nt])([nt]))?", name)
        if found is None:
            raise SystemExit(f"no name of a product: {name!r}; such as '8x 312x59x366 nt'")
        batch, *sizes = (found[i] for i in range(1, 5))
        m, n, k = (int(size or sizes[0]) for size in sizes)
        return cls(int(batch or 1), m, n, k, found[5] == "t", found[6] == "t")

    def __str__(self) -> str:
        sizes = f"{self.m}" if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        layout = "".join("nt"[each] for each in (self.transpose_a, self.transpose_b))
        return f"{self.batch}x " * (self.batch > 1) + sizes + f" {layout}" * (layout != "nn")

    @property
    def shape(self) -> Any:
        """The template's shape."""
        from autotune.templates.products.gemm_shape import Gemm

        stored = self.transpose_a, self.transpose_b
        return Gemm(self.m, self.n, self.k, "float32", self.batch, *stored)


def drawn(count: int, seed: int) -> list[Case]:
    """Return products of sizes drawn at random, evenly by logarithms; half of them are odd."""
    rng, found = random.Random(seed), []

    def extent(low: int, high: int) -> int:
        value = round(low * (high / low) ** rng.random())
        return value if rng.random() < 0.5 else max(low, value // 4 * 4)

    while len(found) < count:
        batch, *sizes = (extent(*each) for each in KINDS[len(found) % len(KINDS)])
        case = Case(batch, *sizes, rng.random() < 0.3, rng.random() < 0.5)
        elements = batch * sum(x * y for x, y in zip(sizes, sizes[1:] + sizes[:1], strict=True))
        if batch * case.m * case.n * case.k <= LARGEST and elements <= MOST_ELEMENTS:
            found.append(case)
    return found


def families(case: Case) -> Iterator[tuple[str, Any]]:
    """Yield the families of kernels that can run a product, with the name of the kernel."""
    from autotune.templates.products import (
        gemm_bf16x3,
        gemm_bf16x3_fused,
        gemm_cuda,
        gemm_small_k,
        matvec_cuda,
    )

    shape = case.shape
    yield "gemm_nn", gemm_cuda
    yield "gemm_bf16x3", gemm_bf16x3
    yield "gemm_bf16x3_fused", gemm_bf16x3_fused
    if gemm_small_k.refusal(shape) is None:
        yield "gemm_small_k", gemm_small_k
    if matvec_cuda.suits(shape):
        yield "matvec", matvec_cuda


def liked(
    shape: Any, family: Any, each: int, others: int, target: Any
) -> Iterator[dict[str, int]]:
    """Yield the best of ``each`` kinds by estimate, then drawn ones of up to twice its cycles."""
    rng, options = random.Random(0), family.candidates(shape)
    names, every = list(options), {}
    for _ in range(DRAWN):
        every[tuple(rng.choice(options[name]) for name in names)] = None
    choices = (dict(zip(names, values, strict=True)) for values in every)
    good = [c for c in choices if family.violation(shape, c, target) is None]
    rated = sorted((family.estimate(shape, c, target), i) for i, c in enumerate(good))
    kinds: dict[tuple[int | None, ...], dict[str, int]] = {}
    for cycles, i in rated:
        if cycles <= 2 * rated[0][0]:
            kinds.setdefault(tuple(good[i].get(name) for name in KIND), good[i])
    found = list(kinds.values())
    yield from found[:each]
    yield from rng.sample(found[each:], min(others, len(found[each:])))


def plans_of(case: Case, options: argparse.Namespace, build: Callable[[Any], Any]) -> list[Plan]:
    """Return the choices of a product, their kernels, and the cubins that are being built."""
    from autotune import Target

    target = Target(f"cuda -arch={ARCH}")
    first, kernel = untuned(case.shape, target)
    plans = [(first, kernel, build(kernel))]
    if not options.each + options.others:
        return plans
    for name, family in families(case):
        for choice in liked(case.shape, family, options.each, options.others, target):
            known: dict[str, Any] = {"family": name, **choice}
            if known != first:
                kernel = family.kernel(case.shape, choice).kernel("cuda")
                plans.append((known, kernel, build(kernel)))
    return plans


def raced(case: Case, plans: Sequence[Plan], seed: int) -> Mapping[str, Any]:
    """Return the median times of cuBLAS and of the kernels of a product, in turns."""
    import torch

    set_up(torch)
    rng = torch.Generator("cuda").manual_seed(seed)
    shape = case.shape
    a, b = (torch.randn(s, generator=rng, device="cuda") for s in shape.shapes[:2])
    left, right = a.mT if case.transpose_a else a, b.mT if case.transpose_b else b
    wanted = left.double() @ right.double()
    out = torch.empty(shape.shapes[2], device="cuda")
    library = lambda: torch.matmul(left, right, out=out)  # noqa: E731
    return in_turns(str(case), (a, b), wanted, TOLERANCE, plans, library)


def main(argv: Sequence[str] | None = None) -> None:
    """Build the kernels, then race them."""
    parser = parser_of(__doc__, "653x729x80 tt", each=0)
    parser.add_argument("--others", type=int, default=0, help="choices of a family, drawn")
    options = parser.parse_args(argv)
    cases = [Case.of(name) for name in options.only or TABLE]
    if options.drawn:
        cases = drawn(options.drawn, options.seed)
    race_all(
        options,
        cases,
        lambda case, build: plans_of(case, options, build),
        lambda case, plans: raced(case, plans, options.seed),
        lambda first: str(first[0]["family"]),
    )


if __name__ == "__main__":
    main()
