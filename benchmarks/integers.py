"""Products of 8-bit integers on a GPU, untuned, beside ``torch._int_mm`` and float16 of cuBLAS.

    python -m benchmarks.integers                    # some 20 seconds

Sums are exact and compared with those of float64. All are timed in turns as CUDA graphs, hot. What
``torch._int_mm`` does not take is left out. PyTorch must be installed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from autotune.task import create
from benchmarks.cubin import Loaded, Replays, build, race

ARCH, ROUNDS = "sm_90", 20


@dataclass(frozen=True)
class Product:
    """A product c[m, n] = a[m, k] b[k, n], either of which may be stored turned."""

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = True

    def __str__(self) -> str:
        layout = "".join("nt"[turned] for turned in (self.transpose_a, self.transpose_b))
        return f"{self.m}x{self.n}x{self.k} {layout}"

    def kernel(self) -> Any:
        """Return the untuned kernel."""
        args = (self.m, self.n, self.k, "int8", 1, self.transpose_a, self.transpose_b)
        task = create("gemm.cuda", args, f"cuda -arch={ARCH}")
        chosen = task.default()
        assert chosen is not None, f"{self}: an empty space"
        return task.instantiate(chosen).kernel("cuda")


PRODUCTS = (
    *(Product(size, size, size) for size in (256, 1024, 2048, 4096, 8192)),
    *(Product(m, 4096, 4096) for m in (16, 32, 128, 512)),
    Product(64, 512, 512),
    Product(64, 11008, 4096),
    Product(197, 3072, 768),
    Product(999, 1001, 1004),
    Product(512, 511, 4096),
    Product(2048, 2048, 2050),
    Product(8, 11008, 4096),
    Product(8, 11008, 4096, False, False),
    Product(16, 4096, 4096, False, False),
    Product(32, 4096, 4096, False, False),
    Product(64, 4096, 4096, False, False),
    Product(512, 4096, 4096, False, False),
    Product(4096, 4096, 4096, False, False),
    Product(4096, 4096, 4096, True, False),
)


def timed(product: Product, kernel: Any, cubin: Any, torch: Any) -> None:
    """Print the times of a product and of its rivals."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    arrays = {
        each.name: torch.randint(
            -128, 128, each.shape, device="cuda", generator=generator, dtype=torch.int8
        )
        for each in kernel.args[:2]
    }
    arrays["c"] = torch.full((product.m, product.n), -1, device="cuda", dtype=torch.int32)
    for room in kernel.workspace:
        dtype = getattr(torch, room.dtype)
        arrays[room.name] = torch.empty(room.shape, device="cuda", dtype=dtype)
    a = arrays["a"].t() if product.transpose_a else arrays["a"]
    b = arrays["b"].t() if product.transpose_b else arrays["b"]
    loaded = Loaded(kernel, cubin, arrays)
    loaded.run()
    torch.cuda.synchronize()
    exact = (a.double() @ b.double()).to(torch.int32)
    assert bool((arrays["c"] == exact).all()), f"{product}: wrong sums"
    halves = a.half(), b.half()
    sides = [{"ours": Replays(loaded.run)}, {"float16": Replays(lambda: torch.matmul(*halves))}]
    try:
        torch._int_mm(a, b)
    except RuntimeError:
        pass  # of up to 16 rows, or of sizes that 8 does not divide
    else:
        sides.append({"int8": Replays(lambda: torch._int_mm(a, b))})
    times = race(sides, 4, ROUNDS)
    own, *rivals = times
    cells = [f"{own.median:.2f} ({own.low:.2f} to {own.high:.2f})"]
    cells += [f"{each.median:.2f}" for each in reversed(rivals)]
    cells[1:1] = ["-"] * (3 - len(times))
    ratio = min(each.median for each in rivals) / own.median
    print(f"| {product} | {' | '.join(cells)} | {ratio:.2f} |", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Time the products that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="products whose name holds this")
    options = parser.parse_args(argv)
    import torch

    import_module("autotune.templates")
    chosen = [each for each in PRODUCTS if options.only in str(each)]
    print("| product, us | ours | cuBLAS int8 | cuBLAS float16 | best of these / ours |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        kernels = [each.kernel() for each in chosen]
        built = [pool.submit(build, kernel, folder, ARCH) for kernel in kernels]
        for product, kernel, future in zip(chosen, kernels, built, strict=True):
            cubin, text = future.result()
            assert cubin is not None, text
            timed(product, kernel, cubin, torch)


if __name__ == "__main__":
    main()
