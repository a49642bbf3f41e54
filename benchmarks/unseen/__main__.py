"""Layers that no other benchmark has: counted, built, run, verified and timed beside PyTorch.

    python -m benchmarks.unseen [--seed 0] [--configs 24] [--only gemm] [--out unseen.jsonl]
    python -m benchmarks.unseen --networks --configs 3  # layers of known networks
    python -m benchmarks.unseen --more-networks --configs 0  # of further networks, by subject
    python -m benchmarks.unseen --families --configs 0  # convolutions of families of networks
    python -m benchmarks.unseen --tables --configs 0 --only "1-D"   # of the tables in docs/
    python -m benchmarks.unseen --broad --configs 0 --seed 1        # drawn from more families
    python -m benchmarks.unseen --convolutions --configs 0 --seed 1     # of convolutions alone
    python -m benchmarks.unseen --tune --only "product float16" --seconds 60
    python -m benchmarks.unseen --build-only        # needs no device

Shapes are drawn from a seed (with ``--broad`` by `unseen.broad`, with ``--convolutions`` by
`unseen.broad_convs`); some were chosen to be nasty (`unseen.shapes`), others are those of known
networks (`unseen.networks`, `unseen.more_networks`), convolutions of families of them in two types
and for two batches (`unseen.families`), or of the tables in docs/ (`unseen.tables`). Of each layer
the space is counted; the untuned default and configurations drawn evenly from the space are built
by nvcc (ahead, on all cores), verified against PyTorch in float64 and timed in CUDA graphs. The
default, the fastest three and PyTorch (cuDNN in both layouts) are then timed in turn. With
``--tune`` the configuration is what a run of `AutoTuner` finds in 300 trials or ``--seconds``.
Layers are prepared by several processes (``--processes``), which have the device in turns. A
faulty kernel ends the process that measures; the next one goes on behind its layer.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.unseen.broad import broad, huge
from benchmarks.unseen.broad_convs import broad_convs
from benchmarks.unseen.families import of_families
from benchmarks.unseen.layer import Layer, Way, with_compiled
from benchmarks.unseen.more_networks import of_more_networks
from benchmarks.unseen.networks import of_networks
from benchmarks.unseen.report import Result, report, results, summary
from benchmarks.unseen.shapes import drawn, nasty
from benchmarks.unseen.tables import of_tables
from benchmarks.unseen.timing import Builder, Prepared, candidate_of, known_as, measured, prepared

TRIALS = 300


def tuned(layer: Layer, seconds: float, seed: int, builder: Builder) -> Result:
    """Return the facts of a layer that was tuned as users do."""
    import autotune
    from autotune.task import create

    made, begun = prepared(layer, 0, seed, builder), time.monotonic()
    found: list[tuple[float, Any, Way]] = []
    trials = failed = 0
    for way in layer.ways:
        task = create(way.template, way.args, "cuda")
        option = autotune.measure_option(
            autotune.LocalBuilder(timeout=30), autotune.LocalRunner(timeout=20)
        )
        share = (seconds - (time.monotonic() - begun)) / (len(layer.ways) - layer.ways.index(way))
        run = autotune.tuner.AutoTuner(task, seed=seed).tune(
            TRIALS // len(layer.ways), option, timeout_s=share * 0.8
        )
        trials, failed = trials + run.trials, failed + sum(run.failures.values())
        if run.best_config is not None:
            found.append((run.seconds or math.inf, (task, run.best_config), way))
    taken = time.monotonic() - begun
    for _, (task, config), way in found:
        made.candidates.append(candidate_of(way, "tuned", task, config, builder))
    result = measured(made, seed)
    return result | {"tuning_s": round(taken, 1), "trials": trials, "failed_trials": failed}


def chosen(options: argparse.Namespace) -> list[Layer]:
    """Return the layers that are asked for."""
    if options.tables:
        layers: Iterable[Layer] = of_tables()
    elif options.networks:
        layers = of_networks()
    elif options.more_networks:
        layers = of_more_networks()
    elif options.families:
        layers = of_families()
    elif options.convolutions:
        layers = broad_convs(options.seed, options.drawn)
    elif options.broad:
        layers = (*broad(options.seed, options.drawn), *huge())
    else:
        layers = (*drawn(options.seed, options.drawn), *nasty())
    if options.compile:
        layers = map(with_compiled, layers)
    every = {each.name: each for each in layers}
    some = [
        layer
        for name, layer in every.items()
        if any(part in f"{layer.kind} {name} {layer.network}" for part in options.only)
    ]
    random.Random(0).shuffle(some)  # a run that is cut short has some of every kind
    number, of = _part(options)
    return some[number - 1 :: of]


def _part(options: argparse.Namespace) -> tuple[int, int]:
    number, of = (int(each) for each in options.part.split("/"))
    return number, of


def run_here(options: argparse.Namespace) -> None:
    """Measure all layers that the file has no result of, and append theirs."""
    done = {each["name"] for each in results(options.out)}
    builder = Builder(options.cubins)
    layers = [layer for layer in chosen(options) if layer.name not in done]
    with options.out.open("a", encoding="utf-8") as out:
        for layer, result in _each(layers, options, builder):
            shown = {"name": layer.name, **result}
            report(shown)
            out.write(json.dumps(shown) + "\n")
            out.flush()
    builder.pool.shutdown(cancel_futures=True)


def _each(
    layers: list[Layer], options: argparse.Namespace, builder: Builder
) -> Iterator[tuple[Layer, Result]]:
    if options.tune:
        for layer in layers:
            yield (
                layer,
                _guarded(layer, lambda x: tuned(x, options.seconds, options.seed, builder)),
            )
        return
    ahead = [prepared(each, options.configs, options.seed, builder) for each in layers]
    for made in ahead:
        if options.build_only:
            yield made.layer, _built(made)
        else:
            yield made.layer, _guarded(made.layer, lambda _, m=made: measured(m, options.seed))


def _guarded(layer: Layer, run: Any) -> Result:
    """Return a result, or what PyTorch or the machinery said; a sticky fault ends the process."""
    import torch

    from autotune.measure import exclusive

    try:
        with exclusive("cuda"):
            result: Result = run(layer)
    except Exception as error:  # the next layer has nothing to do with it
        torch.cuda.synchronize()
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return {"kind": layer.kind, "error": text}
    return result


def _built(made: Prepared) -> Result:
    """Return what is known of a layer without a device."""
    for each in made.candidates:
        if each.built and each.built.result()[0] is None:
            lines = each.built.result()[1].strip().splitlines()
            each.failure = f"nvcc: {lines[-1] if lines else ''}"
    failures = [f"{known_as(c)}: {c.failure}" for c in made.candidates if c.failure]
    return {
        "kind": made.layer.kind, "counted_s": round(made.counted_s, 3), "points": made.points,
        "refused": made.refused, "tried": len(made.candidates), "failures": failures,
    }  # fmt: skip


def _supervise(part: str, words: Sequence[str], options: argparse.Namespace) -> None:
    """Measure the layers of a part in a process, and in another one where a layer ended it."""
    command = [sys.executable, "-m", "benchmarks.unseen", *words, "--part", part, "--child"]
    mine = argparse.Namespace(**vars(options) | {"part": part})
    while subprocess.run(command).returncode:
        done = {each["name"] for each in results(options.out)}
        left = [each for each in chosen(mine) if each.name not in done]
        if not left:
            break
        died = {"name": left[0].name, "kind": left[0].kind, "error": "the process died"}
        with options.out.open("a", encoding="utf-8") as out:
            out.write(json.dumps(died) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the layers in processes that may die, then sum up."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.unseen", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", default=[""], nargs="*", help="parts of kinds and names")
    parser.add_argument("--networks", action="store_true", help="layers of known networks")
    parser.add_argument("--more-networks", action="store_true", help="of further ones, by subject")
    parser.add_argument("--families", action="store_true", help="convolutions of networks")
    parser.add_argument("--tables", action="store_true", help="layers of the tables in docs/")
    parser.add_argument("--broad", action="store_true", help="all families but convolutions")
    parser.add_argument("--convolutions", action="store_true", help="of every family of them")
    parser.add_argument("--compile", action="store_true", help="beside torch.compile too")
    parser.add_argument("--drawn", type=int, default=7, help="layers of each kind, about")
    parser.add_argument("--configs", type=int, default=24, help="drawn, beside the default")
    parser.add_argument("--part", default="1/1", help="i/n: every n-th layer from the i-th on")
    parser.add_argument("--processes", type=int, default=8, help="that prepare layers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--seconds", type=float, default=60, help="of tuning, a layer")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("unseen.jsonl"), help="gone on with")
    parser.add_argument("--cubins", type=Path, help="a folder to keep them in")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    import_module("autotune.templates")
    if options.child:
        run_here(options)
        return 0
    words = list(sys.argv[1:] if argv is None else argv)
    with tempfile.TemporaryDirectory() as folder:
        if options.cubins:
            options.cubins.mkdir(parents=True, exist_ok=True)
        else:
            words += ["--cubins", folder]
        number, of = _part(options)
        parts = [f"{number + i * of}/{of * options.processes}" for i in range(options.processes)]
        with ThreadPoolExecutor(options.processes) as pool:
            for ended in [pool.submit(_supervise, part, words, options) for part in parts]:
                ended.result()
    named = options.networks or options.more_networks or options.tables or options.families
    summary(results(options.out), "network" if named else "kind")
    return 0


if __name__ == "__main__":
    sys.exit(main())
