"""Attention with biases and heads of all sizes on a GPU, beside PyTorch's in CUDA graphs.

    python -m benchmarks.networks.attention_biases

Times are microseconds of one call in a CUDA graph of many, medians of samples in turns. PyTorch's
is `scaled_dot_product_attention` with the bias as its mask, by the fastest of its libraries.
Errors are 2-norms of differences to float64.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import autotune.templates

import autotune
from benchmarks.cubin import Replays, race
from benchmarks.layer_workloads import attention_rivals
from benchmarks.templates_gpu import captured_rivals
from benchmarks.turns import alone

# Batch, heads, queries, keys, size, and the extents of the bias before the keys.
CASES: dict[str, tuple[int, int, int, int, int, tuple[int, ...]]] = {
    "Swin-T, 64 windows of 3 heads": (64, 3, 49, 49, 32, (64, 3, 49)),
    "Swin-T, 16 windows of 6 heads": (16, 6, 49, 49, 32, (1, 6, 49)),
    "T5-small": (1, 8, 128, 128, 64, (1, 8, 128)),
    "T5, 1024 tokens": (1, 8, 1024, 1024, 64, (1, 8, 1024)),
    "padding of BERT, batch 8": (8, 12, 128, 128, 64, (8, 1, 1)),
    "ALiBi, one query": (1, 32, 1, 2048, 128, (1, 32, 1)),
    "heads of 80": (1, 16, 1024, 1024, 80, ()),
    "heads of 80, biased": (1, 16, 1024, 1024, 80, (1, 16, 1024)),
    "heads of 96, biased": (1, 8, 512, 512, 96, (1, 8, 512)),
    "heads of 256": (1, 8, 512, 512, 256, ()),
    "heads of 256, biased": (1, 8, 512, 512, 256, (1, 8, 512)),
    "heads of 32": (1, 8, 512, 512, 32, ()),
}


def built(case: tuple[Any, ...]) -> Any:
    """Return the untuned kernel of a case."""
    *extents, bias = case
    args = (*extents, 0, False, 0.0, "float16", "BHSD", *([bias] if bias else []))
    with autotune.Target("cuda"):
        task = autotune.create("attention.cuda", args=args, target="cuda")
        return autotune.build(task.instantiate(task.default()))


def arrays_of(torch: Any, case: tuple[Any, ...]) -> list[Any]:
    """Return drawn arrays, the last for the result."""
    batch, heads, queries, keys, size, bias = case
    shapes = [(batch, heads, queries, size), *[(batch, heads, keys, size)] * 2]
    shapes += [(*bias, keys)] if bias else []
    drawn = [torch.randn(each, device="cuda").half() for each in shapes]
    return [*drawn, torch.empty_like(drawn[0])]


def compare(torch: Any, name: str, function: Any, case: tuple[Any, ...], rounds: int) -> None:
    """Print the times of both, and the error of each."""
    arrays = arrays_of(torch, case)
    (q, k, v, *bias), out = arrays[:-1], arrays[-1]
    mask = bias[0] if bias else None
    attend = torch.nn.functional.scaled_dot_product_attention
    exact = attend(q.double(), k.double(), v.double(), mask.double() if bias else None)
    theirs = attend(q, k, v, mask)
    function(*arrays)
    errors = [float((x.double() - exact).norm() / exact.norm()) for x in (out, theirs)]
    library = captured_rivals(attention_rivals([q, k, v], causal=False, mask=mask))
    other, ours = race([library, {"ours": Replays(lambda: function(*arrays))}], rounds=rounds)
    print(
        f"{name:32} ours {ours.median:7.2f} us, {other.name:32} {other.median:7.2f}, "
        f"{other.median / ours.median:5.2f}, errors {errors[0]:.1e} {errors[1]:.1e}",
        flush=True,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--lock", help="a file; who holds it is timed, others wait")
    options = parser.parse_args(argv)
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, flush=True)
    with ThreadPoolExecutor(16) as pool:
        functions = list(pool.map(built, CASES.values()))
    with alone(options.lock):
        for (name, case), function in zip(CASES.items(), functions, strict=True):
            compare(torch, name, function, case, options.rounds)


if __name__ == "__main__":
    main()
