"""Search the CUDA source templates on a GPU; compare with cuDNN, cuBLAS and PyTorch in one run.

    python -m benchmarks.templates_gpu [--only conv] [--configs 120] [--rounds 3] [--out r.json]
    python -m benchmarks.templates_gpu --roof --only depthwise

Every configuration is built by nvcc in parallel, verified against numpy and timed as the median
of CUDA graph replays with the arrays resident in L2. The fastest three and the library - cuDNN in
both layouts, as its benchmark mode picks in three attempts each - are then timed in turn: the
first rounds choose the best of each side, the others give its median and where 80% of them lie.
With ``--roof`` kernels that only copy what the layer reads and writes, and one that does nothing,
take turns too.
Needs torch, nvcc and one device, and none of the measuring machinery of the package: it is the
check from outside on what that machinery reports. Each workload runs in a child process, so that
a faulty kernel costs that workload alone.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that a plain checkout will do

from benchmarks.copies import copies  # noqa: E402
from benchmarks.cubin import (  # noqa: E402
    Loaded,
    Replays,
    Time,
    build,
    graph_microseconds,
    race,
)
from benchmarks.rivals import Named  # noqa: E402
from benchmarks.template_workloads import Choice, Workload, workloads  # noqa: E402

# How many of the fastest are timed again beside the library.
FINALISTS = 3


class Bench:
    """Searches one workload on the device."""

    def __init__(self, workload: Workload, arch: str, seed: int) -> None:
        import torch

        self.workload, self.arch, self.rng = workload, arch, random.Random(seed)
        self.results: list[tuple[float, Choice]] = []
        self.seen: set[tuple[int, ...]] = set()
        self.failures: dict[str, int] = {}
        self.kept: list[dict[str, Any]] = []
        values = np.random.default_rng(seed)
        plain = {key: options[0] for key, options in workload.candidates.items()}
        source = workload.kernel(plain | {"split": 1, "cluster": 0, "taps": 0})
        self.arrays = {a.name: self.array(a, values) for a in source.args}
        inputs = [self.arrays[a.name] for a in source.args if a.role == "in"]
        if workload.wanted:
            self.wanted = workload.wanted(list(self.arrays.values()))
        else:
            wanted = source.reference(*(each.double().cpu().numpy() for each in inputs))
            self.wanted = torch.from_numpy(np.asarray(wanted)).cuda()
        self.scale = float(self.wanted.abs().max())
        self.output = next(a.name for a in source.args if a.role == "out")

    def array(self, argument: Any, values: np.random.Generator) -> Any:
        """Return an array on the device: a drawn input, or room for an output."""
        import torch

        dtype = getattr(torch, argument.dtype)
        if argument.role == "in":
            drawn = torch.from_numpy(values.standard_normal(argument.shape, np.float32))
            return drawn.to(dtype).cuda()
        return torch.empty(argument.shape, dtype=dtype, device="cuda")

    def draw(self, count: int) -> list[Choice]:
        """Draw valid choices: half the best by estimate of many, half plain random."""
        options = self.workload.candidates
        drawn = [{k: self.rng.choice(v) for k, v in options.items()} for _ in range(40 * count)]
        drawn += [{k: self.rng.choice(v) for k, v in options.items()} for _ in range(200 * count)]
        distinct = {tuple(c.values()): c for c in drawn if self.fresh(c)}.values()
        valid = [c for c in distinct if not self.workload.violation(c)]
        self.rng.shuffle(valid)
        guided = sorted(valid[count // 2 :], key=self.workload.estimate)
        return valid[: count // 2] + guided[: count - count // 2]

    def mutate(self, count: int) -> list[Choice]:
        """Change one to three knobs of the best so far."""
        options, parents = (
            self.workload.candidates,
            [c for _, c in sorted(self.results, key=lambda r: r[0])[:12]],
        )
        found: list[Choice] = []
        for _ in range(400 * count):
            if not parents or len(found) == count:
                break
            child = dict(self.rng.choice(parents))
            for key in self.rng.sample(list(options), min(len(options), self.rng.randint(1, 3))):
                child[key] = self.rng.choice(options[key])
            if self.fresh(child) and not self.workload.violation(child):
                found.append(child)
                self.seen.add(tuple(child.values()))
        return found

    def fresh(self, choice: Choice) -> bool:
        """Whether a choice was not tried yet."""
        return tuple(choice.values()) not in self.seen

    def trial(self, choices: Sequence[Choice], pool: ThreadPoolExecutor, folder: str) -> None:
        """Build all in parallel, then run one after the other as they come."""
        kernels = [self.workload.kernel(c).kernel("cuda") for c in choices]
        built = pool.map(lambda k: build(k, folder, self.arch), kernels)
        for choice, kernel, (cubin, log) in zip(choices, kernels, built, strict=True):
            self.seen.add(tuple(choice.values()))
            if cubin is None:
                self.fail(log.strip().splitlines()[-1] if log.strip() else "nvcc failed")
                continue
            try:
                self.results.append((self.measure(kernel, cubin), choice))
            except ArithmeticError as error:
                self.fail(str(error))
            except RuntimeError as error:
                raise RuntimeError(f"{error} with {choice}") from error

    def fail(self, reason: str) -> None:
        """Count a failure by its reason."""
        self.failures[reason[:120]] = self.failures.get(reason[:120], 0) + 1

    def measure(self, kernel: Any, cubin: Path) -> float:
        """Verify, then time; `ArithmeticError` for a wrong answer."""
        import torch

        loaded = self.load(kernel, cubin)
        out = self.arrays[self.output]
        out.fill_(float("nan") if out.is_floating_point() else -1)
        loaded.run()
        torch.cuda.synchronize()
        error = float((self.arrays[self.output].double() - self.wanted).abs().max())
        if not error <= self.workload.tolerance * self.scale:
            raise ArithmeticError(f"wrong answer, error {error:.2e} of {self.scale:.2e}")
        microseconds = graph_microseconds(loaded.run)
        loaded.unload()
        self.kept.pop()
        return microseconds

    def contenders(self, count: int, folder: str) -> dict[str, Replays]:
        """Build the fastest choices once more and capture each; the names are their numbers."""
        captured = {}
        for number, (_, choice) in enumerate(sorted(self.results, key=lambda r: r[0])[:count]):
            kernel = self.workload.kernel(choice).kernel("cuda")
            cubin, log = build(kernel, folder, self.arch)
            if cubin is None:
                raise RuntimeError(f"{choice} was built before, and not again: {log}")
            captured[str(number)] = Replays(self.load(kernel, cubin).run)
        return captured

    def roofs(self, folder: str, wanted: bool) -> list[dict[str, Replays]]:
        """Return kernels that copy what the first argument and the output have, where wanted."""
        first = next(iter(self.arrays.values()))
        return copies(first, self.arrays[self.output], folder, self.arch) if wanted else []

    def load(self, kernel: Any, cubin: Path) -> Loaded:
        """Load a kernel onto the workload's arrays, with buffers of its own."""
        import torch

        extra = {w.name: torch.empty(w.shape, device="cuda") for w in kernel.workspace}
        self.kept.append(extra)  # graphs keep addresses, not arrays
        return Loaded(kernel, cubin, self.arrays | extra)


def captured_rivals(rivals: Named) -> dict[str, Replays]:
    """Return the library's ways as graphs, without those that it has no kernel for.

    Raises:
        RuntimeError: it has none at all.
    """
    captured, refused = {}, []
    for name, run in rivals:
        try:
            captured[name] = Replays(run)
        except RuntimeError as error:  # cuDNN without any engine for a layout
            refused.append(f"{name}: {' '.join(str(error).split())[:200]}")
    if not captured:
        raise RuntimeError(f"no rival runs: {'; '.join(refused)}")
    for line in refused:
        print(f"    {line}", file=sys.stderr)
    return captured


def run_one(workload: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """Search one workload; return its best configurations and the library's time."""
    import torch

    major, minor = torch.cuda.get_device_capability()
    bench, started = Bench(workload, f"sm_{major}{minor}", options.seed), time.time()
    default = workload.default()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(16) as pool:
        for number in range(options.rounds):
            first = number == 0
            chosen = bench.draw(options.configs) if first else bench.mutate(options.configs // 2)
            chosen = [default, *chosen] if number == 0 else chosen
            bench.trial(chosen, pool, folder)
        library = captured_rivals(workload.rivals(list(bench.arrays.values())))
        ours = bench.contenders(FINALISTS, folder)
        sides = [library, *([ours] if ours else []), *bench.roofs(folder, options.roof)]
        rival, *winners = race(sides)
    best = sorted(bench.results, key=lambda r: r[0])
    return {
        "name": workload.name,
        "library": asdict(rival),
        "autotune": asdict(winners[0]) if ours else None,
        "roofs": [asdict(each) for each in winners[bool(ours) :]],
        "choice": best[int(winners[0].name)][1] if ours else None,
        "default_us": next((us for us, c in best if c == default), None),
        "best": [{"us": round(us, 2), **choice} for us, choice in best[:5]],
        "all": [[round(us, 3), *choice.values()] for us, choice in best],
        "knobs": list(workload.candidates),
        "tried": len(bench.seen),
        "failures": bench.failures,
        "seconds": time.time() - started,
        "gflops": workload.flop / winners[0].median / 1e3 if ours else None,
        "gbytes": workload.bytes / winners[0].median / 1e3 if ours else None,
    }


def report(result: dict[str, Any]) -> None:
    default = result["default_us"] or float("nan")
    library = Time(**result["library"])
    ours = Time(**result["autotune"]) if result["autotune"] else Time("-", *[float("nan")] * 3)
    print(
        f"{result['name']:34} {library.name:21} {_shown(library)}  default {default:8.2f}  "
        f"autotune {_shown(ours)}  {library.median / ours.median:5.2f}x  "
        f"{result['gflops'] or 0:7.0f} GFLOP/s {result['gbytes'] or 0:5.0f} GB/s  "
        f"tried {result['tried']} in {result['seconds']:.0f} s"
    )
    for roof in result["roofs"]:
        print(f"    roof: {roof['name']:21} {_shown(Time(**roof))}")
    for line in result["best"][:3]:
        print("   ", line)
    for reason, count in result["failures"].items():
        print(f"    failed {count}: {reason}")
    sys.stdout.flush()


def _shown(time: Time) -> str:
    return f"{time.median:8.2f} us ({time.low:.2f} to {time.high:.2f})"


def _here(workload: Workload, options: argparse.Namespace) -> dict[str, Any] | str:
    """Return the result of a workload, or why there is none."""
    try:
        return run_one(workload, options)
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())


def _apart(name: str, options: argparse.Namespace) -> dict[str, Any] | str:
    """Return the result of a workload in a process of its own, or what that said at its end."""
    command = [sys.executable, __file__, "--child", name, "--configs", str(options.configs)]
    command += ["--rounds", str(options.rounds), "--seed", str(options.seed)]
    command += ["--roof"] * options.roof
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [x for x in done.stdout.splitlines() if x.startswith("RESULT ")]
    if not lines:
        return done.stderr or done.stdout
    result: dict[str, Any] = json.loads(lines[0][7:])
    return result


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=[""], nargs="*", help="parts of workloads' names")
    parser.add_argument("--configs", type=int, default=120, help="of the first round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--roof", action="store_true", help="time copies of the same bytes too")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument(
        "--one-process",
        action="store_true",
        help="faster, but a faulty kernel costs all that follow",
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    every = {w.name: w for w in workloads()}
    if options.child:
        print("RESULT " + json.dumps(run_one(every[options.child], options)))
        return 0
    results = []
    for name in (n for n in every if any(part in n for part in options.only)):
        result = _here(every[name], options) if options.one_process else _apart(name, options)
        if isinstance(result, str):
            print(f"{name}: failed\n{result[-800:]}", flush=True)
            continue
        results.append(result)
        report(results[-1])
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(results, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
