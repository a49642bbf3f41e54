"""The nearest record of a log against the untuned default, for shapes near those of its records.

    python -m benchmarks.nearest [--seed 5] [--count 72]                    # the pack that ships
    python -m benchmarks.nearest --list                                     # needs no device
    python -m benchmarks.nearest --log few.log --target "cuda -emulate"     # nor does this

Templates run untuned with what the pack has for exactly their shape, else with an estimate of
their own. Would the record of the nearest shape, made to fit as `autotune.jit` does, be faster?
Shapes are drawn around the records: of one to three extents, small ones differ by a few, others by
a factor. Where the nearest record is another kernel than the default, both are timed in turn, on a
device as CUDA graphs with their arrays in L2; their results must agree.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cubin import Loaded, Replays, build, race
from benchmarks.templates_gpu import ROOT

PACK = ROOT / "templates" / "tuned" / "h200.log"
FACTORS = (0.6, 0.75, 1.25, 1.5)
STEPS = (-2, -1, 1, 3)
SMALL, LEAST_FACTORED, MULTIPLE = 14, 32, 8
TOLERANCE = 1e-4  # of the largest result, between two kernels for the same
Args = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A shape, and the two configurations that might serve it untuned.

    Attributes:
        task: of the shape.
        default, near: configurations; `near` is None where no record can be made to fit.
        of: the arguments of the record that `near` comes from.
    """

    task: Any
    default: Any
    near: Any = None
    of: Args = ()

    @property
    def kind(self) -> str:
        """Its fate: ``"raced"``, or why it was not."""
        if self.near is None:
            return "no record fits"
        return "same kernel" if self.near.index == self.default.index else "raced"

    @property
    def name(self) -> str:
        """The call of the template."""
        return f"{self.task.name} {self.task.args}"


def changed(args: Args, rng: random.Random) -> Args:
    """Return the arguments with one to three extents changed."""
    extents = [i for i, each in enumerate(args) if type(each) is int and each >= SMALL]
    chosen = set(rng.sample(extents, min(len(extents), rng.choice((1, 2, 3)))))

    def near(extent: int) -> int:
        if extent < LEAST_FACTORED:
            return extent + rng.choice(STEPS)
        return max(MULTIPLE, round(extent * rng.choice(FACTORS) / MULTIPLE) * MULTIPLE)

    return tuple(near(each) if i in chosen else each for i, each in enumerate(args))


def cases(log: Path, target: str, seed: int, count: int) -> Iterator[Case]:
    """Yield shapes around the records of a log, the templates in turn."""
    from autotune.just_in_time.nearest import nearest
    from autotune.record import load_from_file
    from autotune.task import create

    pairs, rng = list(load_from_file(log, races=True)), random.Random(seed)
    names = sorted({inp.task.name for inp, _ in pairs})
    for number in range(count):
        name = names[number % len(names)]
        record, _ = rng.choice([pair for pair in pairs if pair[0].task.name == name])
        args = changed(record.task.args, rng)
        if args == record.task.args:
            continue
        task = create(name, args, target)
        default, found = task.default(), next(iter(nearest(task, pairs)), None)
        if default is None:
            raise RuntimeError(f"{name} {args}: the template has no default")
        yield (
            Case(task, default) if found is None else Case(task, default, found[1], found[0].args)
        )


class Called:
    """A function of the emulator, timed as the clock of the wall runs."""

    def __init__(self, task: Any, config: Any, arrays: Sequence[Any]) -> None:
        import autotune

        self.function = autotune.build(task.instantiate(config), target=task.target)
        self.arrays = arrays

    def microseconds(self) -> float:
        """Call once; return how long it took."""
        begun = time.perf_counter()
        self.function(*self.arrays)
        return (time.perf_counter() - begun) * 1e6


class Bench:
    """Makes the two contenders of a case, and their results."""

    def __init__(self, folder: str, seed: int) -> None:
        self.folder, self.seed, self.pool = folder, seed, ThreadPoolExecutor()

    def begin(self, case: Case) -> list[tuple[Any, Future[tuple[Path | None, str]]]]:
        """Begin to build both kernels for a device."""
        begun = []
        for config in (case.default, case.near):
            kernel = case.task.instantiate(config).kernel("cuda")
            cubin = self.pool.submit(build, kernel, self.folder, case.task.target.arch)
            begun.append((kernel, cubin))
        return begun

    def emulated(self, case: Case) -> list[tuple[Called, Any]]:
        """Return both functions and where they leave their result."""
        made = []
        for config in (case.default, case.near):
            rng, arrays = np.random.default_rng(self.seed), []
            kernel = case.task.instantiate(config).kernel("cuda")
            for each in kernel.args:
                whole = np.dtype(each.dtype).kind != "f"
                values = np.zeros(each.shape) if whole else rng.standard_normal(each.shape)
                arrays.append(values.astype(each.dtype))
            out = next(i for i, each in enumerate(kernel.args) if each.role == "out")
            made.append((Called(case.task, config, arrays), arrays[out]))
        return made

    def on_device(self, begun: Sequence[Any]) -> list[tuple[Replays, Any]]:
        """Return both graphs and the arrays of their results."""
        import torch

        made = []
        for kernel, cubin in begun:
            path, text = cubin.result()
            if path is None:
                raise RuntimeError(text)
            rng, arrays = torch.Generator("cuda").manual_seed(self.seed), dict[str, Any]()
            for each in (*kernel.args, *kernel.workspace):
                dtype = getattr(torch, each.dtype)
                arrays[each.name] = torch.zeros(each.shape, dtype=dtype, device="cuda")
                if dtype.is_floating_point:
                    arrays[each.name].normal_(generator=rng)
            loaded = Loaded(kernel, path, arrays)
            out = next(each.name for each in kernel.args if each.role == "out")
            made.append((Replays(partial(_run, loaded, arrays)), arrays[out]))
        return made


def _run(loaded: Loaded, _arrays: dict[str, Any]) -> None:
    """Launch; the arrays come along, as graphs keep addresses only."""
    loaded.run()


def raced(sides: Sequence[tuple[Any, Any]], rounds: int) -> tuple[float, float]:
    """Return what the default and the nearest take, in microseconds; they must agree."""
    (default, wanted), (near, found) = sides
    times = race([{"default": default}, {"nearest": near}], choosing=5, rounds=rounds)
    wanted, found = (np.asarray(x.cpu() if hasattr(x, "cpu") else x) for x in (wanted, found))
    error = float(np.abs(wanted - found).max() / (np.abs(wanted).max() or 1))
    if not error <= TOLERANCE:
        raise ArithmeticError(f"the two kernels differ by {error:.1e} of the largest result")
    return times[0].median, times[1].median


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def table(speeds: dict[str, list[float]]) -> Iterator[str]:
    """Yield a table of how many times as fast as the default the nearest record is."""
    yield "| template | shapes | nearest / default | least | most |"
    yield "|---|---|---|---|---|"
    every = [one for each in speeds.values() for one in each]
    for name, some in {**speeds, "all": every}.items():
        if some:
            mean = geometric_mean(some)
            yield f"| {name} | {len(some)} | {mean:.3f} | {min(some):.2f} | {max(some):.2f} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the shapes and race what serves them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", type=Path, default=PACK)
    parser.add_argument("--target", default="cuda -arch=sm_90", help="of the records, too")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--count", type=int, default=72, help="shapes to draw")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--list", action="store_true", help="only say what would be raced")
    given = parser.parse_args(argv)
    import autotune.templates  # noqa: F401

    drawn = {each.name: each for each in cases(given.log, given.target, given.seed, given.count)}
    print(", ".join(f"{n} {kind}" for kind, n in Counter(c.kind for c in drawn.values()).items()))
    racing = [case for case in drawn.values() if case.kind == "raced"]
    if given.list:
        for case in racing:
            print(f"{case.name}: record of {case.of}")
        return
    speeds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, given.seed)
        emulated = racing and racing[0].task.target.emulate
        begun = [None if emulated else bench.begin(case) for case in racing]
        for case, kernels in zip(racing, begun, strict=True):
            sides = bench.emulated(case) if kernels is None else bench.on_device(kernels)
            default, near = raced(sides, given.rounds)
            speeds.setdefault(case.task.name, []).append(default / near)
            line = f"default {default:.2f}, nearest {near:.2f} us: {default / near:.2f}"
            print(f"{case.name}: {line} (of {case.of})", flush=True)
        bench.pool.shutdown()
    for line in table(speeds):
        print(line)


if __name__ == "__main__":
    main()
