"""Operators that are called by name, untuned, beside PyTorch: those that no other benchmark has.

    python -m benchmarks.operators [--only cumsum pool] [--processes 8]

Each is verified against PyTorch in float64, and timed in turn with PyTorch's in CUDA graphs;
images in both of PyTorch's layouts. Kernels are built by several processes, which have the device
in turns.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.operator_cases import Case, cases

# Largest errors, relative to the largest result, by types of elements; of others none.
TOLERANCES = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1e-2}


def _arrays(case: Case, rng: Any) -> list[Any]:
    """Return arrays on the device: normal numbers, small whole ones, or places of a table."""
    import torch

    made: list[Any] = []
    for number, (shape, name) in enumerate(case.inputs):
        dtype = getattr(torch, name)
        if dtype.is_floating_point:
            made.append(torch.randn(shape, generator=rng, device="cuda").to(dtype))
            continue
        low, high = (0, 2) if name == "bool" else (-100, 100)
        if case.operator == "take" and number == 1:
            low, high = 0, case.inputs[0][0][case.attributes["along"]]
        whole = torch.randint(low, high, shape, generator=rng, device="cuda")
        made.append(whole.to(dtype))
    return made


def _results(case: Case, arrays: Sequence[Any]) -> list[Any]:
    out = case.run(*arrays)
    return [*out] if isinstance(out, tuple) else [out]


def _error(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Return the largest error, relative to the largest result."""
    pairs = [(g.double(), w.double()) for g, w in zip(got, wanted, strict=True)]
    return max(float((g - w).abs().max()) / (float(w.abs().max()) or 1.0) for g, w in pairs)


def _rivals(case: Case, arrays: Sequence[Any]) -> dict[str, Any]:
    """Return PyTorch's ways: of pooling and resizing images in the other layout too."""
    found = {"PyTorch": partial(case.run, *arrays)}
    layout, (first, *_) = case.attributes.get("layout"), arrays
    if layout and first.ndim == 4 and "global" not in case.operator:
        turned = (0, 2, 3, 1) if layout == "NCHW" else (0, 3, 1, 2)
        back = (0, 3, 1, 2) if layout == "NCHW" else (0, 2, 3, 1)
        other = first.permute(turned).contiguous().permute(back)
        found["PyTorch, other layout"] = partial(case.run, other)
    return found


def measured(case: Case, seed: int) -> dict[str, Any]:
    """Return the times of an operator; raise `ArithmeticError` where it is wrong."""
    import torch

    import autotune
    from autotune.measure import exclusive
    from benchmarks.cubin import Replays, race

    with exclusive("cuda"):
        arrays = _arrays(case, torch.Generator("cuda").manual_seed(seed))
        plain = _results(case, arrays)
        kinds = [case.result or str(each.dtype).removeprefix("torch.") for each in plain]
        outs = [
            torch.empty(each.shape, dtype=getattr(torch, kind), device="cuda")
            for each, kind in zip(plain, kinds, strict=True)
        ]
        torch.cuda.synchronize()
    del plain
    with tempfile.TemporaryDirectory() as folder:
        call = autotune.jit(case.operator, store=f"{folder}/log")(lambda *_: case.attributes)
        choice = call.choice(*arrays, *outs)  # which builds the kernel
        with exclusive("cuda"):
            call(*arrays, *outs)
            wide = [x.double() if x.is_floating_point() else x for x in arrays]
            error = _error(outs, _results(case, wide))
            if not error <= TOLERANCES.get(kinds[0], 0.0):
                raise ArithmeticError(f"wrong answer, error {error:.2e}")
            del wide
            rivals = {name: Replays(run) for name, run in _rivals(case, arrays).items()}
            library, own = race([rivals, {"ours": Replays(lambda: call(*arrays, *outs))}], 6, 12)
            torch.cuda.synchronize()
    return {
        "name": case.name, "group": case.group, "how": choice.template or choice.origin,
        "library": library.median, "rival": library.name, "ours": own.median,
        "low": own.low, "high": own.high,
    }  # fmt: skip


def _chosen(options: argparse.Namespace) -> list[Case]:
    number, of = (int(each) for each in options.part.split("/"))
    every = [
        case
        for case in cases()
        if any(part in f"{case.group} {case.name}" for part in options.only)
    ]
    return every[number - 1 :: of]


def _run_here(options: argparse.Namespace) -> None:
    import torch

    with options.out.open("a", encoding="utf-8") as out:
        for case in _chosen(options):
            try:
                result = measured(case, options.seed)
            except Exception as error:  # the next operator has nothing to do with it
                result = {"name": case.name, "group": case.group, "error": str(error)[:300]}
            out.write(json.dumps(result) + "\n")
            out.flush()
            torch.cuda.empty_cache()


def _report(results: Sequence[dict[str, Any]]) -> None:
    """Print all operators by groups, and the geometric mean of each group."""
    print("| operator | PyTorch | ours | PyTorch / ours |\n|---|---|---|---|")
    for each in sorted(results, key=lambda one: str(one["group"])):
        if "error" in each:
            print(f"| {each['name']} | {each['error']} | | |")
            continue
        spread = f"{each['ours']:.2f} ({each['low']:.2f} to {each['high']:.2f}), {each['how']}"
        ratio = each["library"] / each["ours"]
        print(f"| {each['name']} | {each['library']:.2f} | {spread} | {ratio:.2f} |")
    print("\n| group | how many | PyTorch / ours | least |\n|---|---|---|---|")
    timed = [each for each in results if "error" not in each]
    for group in dict.fromkeys(each["group"] for each in timed):
        some = [each["library"] / each["ours"] for each in timed if each["group"] == group]
        mean = math.exp(sum(map(math.log, some)) / len(some))
        print(f"| {group} | {len(some)} | {mean:.2f} | {min(some):.2f} |")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the operators, then print a table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.operators", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", default=[""], nargs="*", help="parts of groups and names")
    parser.add_argument("--processes", type=int, default=8, help="that build kernels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    import_module("autotune.templates")
    if options.part:
        _run_here(options)
        return 0
    words = list(sys.argv[1:] if argv is None else argv)
    with tempfile.TemporaryDirectory() as folder:
        out, of = Path(folder) / "results.jsonl", options.processes
        command = [sys.executable, "-m", "benchmarks.operators", *words, "--out", str(out)]
        begun = [
            subprocess.Popen([*command, "--part", f"{number + 1}/{of}"]) for number in range(of)
        ]
        for each in begun:
            each.wait()
        _report([json.loads(line) for line in out.read_text("utf-8").splitlines()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
