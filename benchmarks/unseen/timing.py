"""Builds, verifies and times the configurations of a layer of `unseen`."""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cubin import Loaded, Replays, Time, build, race
from benchmarks.templates_gpu import captured_rivals
from benchmarks.unseen.layer import Layer, Way
from benchmarks.unseen.report import Result

ARCH = "sm_90"
# Largest errors, relative to the largest result, by types of products; of others 2e-3.
TOLERANCES = {"float32": 1e-4, "int8": 0.0, "bfloat16": 1e-2}
FINALISTS = 3


@dataclass
class Candidate:
    """A configuration of a way, and what became of it."""

    way: Way
    label: str
    kernel: Any = None
    built: Future[tuple[Path | None, str]] | None = None
    failure: str = ""
    microseconds: float = math.inf


@dataclass
class Prepared:
    """A layer whose kernels are being built."""

    layer: Layer
    candidates: list[Candidate] = field(default_factory=list)
    refused: str = ""
    counted_s: float = 0.0
    points: int = 0


class Builder:
    """Builds kernels on all cores; equal texts once, also by processes before this one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pool = folder, ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def submit(self, kernel: Any) -> Future[tuple[Path | None, str]]:
        """Begin to build a kernel; the result is the cubin, or None and the compiler's text."""
        return self.pool.submit(self._built, kernel)

    def _built(self, kernel: Any) -> tuple[Path | None, str]:
        text = "\0".join([kernel.source, *kernel.flags])
        kept = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.cubin"
        if kept.exists():
            return kept, ""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            cubin, log = build(kernel, place, ARCH)
            if cubin is None:
                return None, log
            os.replace(cubin, kept)
        return kept, ""


def prepared(layer: Layer, configs: int, seed: int, builder: Builder) -> Prepared:
    """Make the tasks of a layer, draw configurations and begin to build them."""
    from autotune.errors import AutotuneError
    from autotune.task import create

    made, rng = Prepared(layer), np.random.default_rng(seed)
    for number, way in enumerate(layer.ways):
        try:
            task = create(way.template, way.args, f"cuda -arch={ARCH}")
            begun = time.process_time()
            made.points += len(task.config_space)
            made.counted_s = max(made.counted_s, time.process_time() - begun)
        except AutotuneError as error:
            made.refused = " ".join(str(error).split())
            continue
        default = task.default()
        share = configs if len(layer.ways) == 1 else max(1, configs // len(layer.ways))
        points = [task.config_space.get(i) for i in task.config_space.sample(share, rng)]
        label = "default" if number == 0 else "other default"
        if default is None:
            made.candidates.append(Candidate(way, label, failure="there is no default"))
        every = [(label, default)] if default is not None else []
        every += [(str(point.index), point) for point in points]
        made.candidates += [
            candidate_of(way, label, task, point, builder) for label, point in every
        ]
    return made


def candidate_of(way: Way, label: str, task: Any, point: Any, builder: Builder) -> Candidate:
    """Return a configuration that is being built, or why it cannot run."""
    from autotune.driver.kernel_of import kernel_of
    from autotune.errors import AutotuneError
    from autotune.kernel import launch_violation

    try:
        kernel = kernel_of(task.instantiate(point), task.target)
    except AutotuneError as error:
        return Candidate(way, label, failure=f"refused: {error}"[:200])
    violation = launch_violation(kernel, task.target.limits)
    if violation:
        return Candidate(way, label, kernel, failure=violation)
    return Candidate(way, label, kernel, builder.submit(kernel))


class Bench:
    """Runs the kernels of one layer on the device."""

    def __init__(self, layer: Layer, kernel: Any, seed: int) -> None:
        import torch

        self.layer, self.seed = layer, seed
        first = layer.ways[0]
        names = [a for a in kernel.args if a.role == "in"]
        rng = torch.Generator("cuda").manual_seed(seed)
        self.inputs = [_array(a, rng, first) for a in names]
        wide = [each.double() if each.is_floating_point() else each for each in self.inputs]
        if names[0].dtype == "int8":
            wide = [each.double() for each in self.inputs]
        self.wanted = layer.compute(wide).double()
        sums = self.wanted if layer.sums is None else layer.sums(wide)
        self.scale = float(sums.abs().max()) or 1.0
        dtype = str(first.args[_dtype_place(first)]) if layer.tf32 else names[0].dtype
        self.tolerance = TOLERANCES.get("tf32" if layer.tf32 else dtype, 2e-3)
        self.kept: list[Any] = []

    def loaded(self, candidate: Candidate) -> tuple[Loaded, Any]:
        """Load a kernel onto arrays of the layer; return it and its result."""
        import torch

        assert candidate.built is not None
        cubin, log = candidate.built.result()
        if cubin is None:
            raise ArithmeticError((log.strip().splitlines() or ["nvcc failed"])[-1])
        kernel, arrays = candidate.kernel, {}
        inputs = iter(self._inputs_of(candidate.way))
        for argument in kernel.args:
            if argument.role == "in":
                arrays[argument.name] = next(inputs)
                continue
            dtype = getattr(torch, argument.dtype)
            poison = float("nan") if dtype.is_floating_point else -1
            arrays[argument.name] = torch.full(argument.shape, poison, dtype=dtype, device="cuda")
        for one in kernel.workspace:
            dtype = getattr(torch, one.dtype)
            arrays[one.name] = torch.empty(one.shape, dtype=dtype, device="cuda")
        self.kept.append(arrays)  # graphs keep addresses, not arrays
        out = next(arrays[a.name] for a in kernel.args if a.role == "out")
        return Loaded(kernel, cubin, arrays), out

    def _inputs_of(self, way: Way) -> list[Any]:
        """Return the arrays that a way takes: filters are transformed for Winograd's method."""
        import torch
        from autotune.templates.convolutions.winograd_cuda import transformed_filters

        if not way.tile:
            return self.inputs
        data, weight, *rest = self.inputs
        filters = transformed_filters(weight.cpu().numpy(), way.tile)
        return [data, torch.from_numpy(filters).cuda(), *rest]

    def measure(self, candidate: Candidate) -> None:
        """Verify a candidate, then time it; what fails is noted."""
        import torch

        try:
            loaded, out = self.loaded(candidate)
            loaded.run()
            torch.cuda.synchronize()
            error = float((out.double().flatten() - self.wanted.flatten()).abs().max())
            if not error <= self.tolerance * self.scale:
                raise ArithmeticError(f"wrong answer, error {error:.2e} of {self.scale:.2e}")
            replays = Replays(loaded.run)
            candidate.microseconds = min(replays.microseconds() for _ in range(5))
            loaded.unload()
        except ArithmeticError as error:
            candidate.failure = str(error)[:200]
        self.kept.clear()

    def race(self, candidates: Sequence[Candidate]) -> list[Time]:
        """Time PyTorch, the default and the fastest in turn."""
        ran = sorted((c for c in candidates if not c.failure), key=lambda c: c.microseconds)
        default = [c for c in ran if c.label == "default"]
        library = captured_rivals(self.layer.rivals(self.inputs))
        sides = [library]
        for every in (default, ran[:FINALISTS]):
            if every:
                sides.append({known_as(c): Replays(self.loaded(c)[0].run) for c in every})
        return race(sides, choosing=8, rounds=20)


def known_as(candidate: Candidate) -> str:
    """Return what a candidate is called: its template and its label."""
    return f"{candidate.way.template} {candidate.label}"


def _dtype_place(way: Way) -> int:
    return next(i for i, each in enumerate(way.args) if each == "tf32")


def _array(argument: Any, rng: Any, way: Way) -> Any:
    """Return an array on the device: normal numbers, or places of a table's rows."""
    import torch

    dtype, options = getattr(torch, argument.dtype), {"generator": rng, "device": "cuda"}
    if dtype.is_floating_point:
        return torch.randn(argument.shape, **options).to(dtype)
    low, high = (0, way.args[0]) if argument.dtype == "int64" else (-128, 128)
    return torch.randint(low, high, argument.shape, dtype=dtype, **options)


def measured(made: Prepared, seed: int) -> Result:
    """Return the facts of a layer; its kernels run on the device."""
    begun = time.monotonic()
    layer = made.layer
    result: Result = {
        "name": layer.name, "kind": layer.kind, "network": layer.network,
        "counted_s": round(made.counted_s, 3), "points": made.points, "refused": made.refused,
    }  # fmt: skip
    known = [c for c in made.candidates if c.kernel and c.way is layer.ways[0]]
    if not known:
        return result
    bench = Bench(layer, known[0].kernel, seed)
    for candidate in made.candidates:
        if not candidate.failure:
            bench.measure(candidate)
    failures = [f"{known_as(c)}: {c.failure}" for c in made.candidates if c.failure]
    result |= {"tried": len(made.candidates), "failures": failures}
    library, *ours = bench.race(made.candidates)
    has_default = any(c.label == "default" and not c.failure for c in made.candidates)
    result["library"] = asdict(library)
    result["default"] = asdict(ours[0]) if has_default else None
    result["best"] = asdict(ours[-1]) if ours else None
    return result | {"seconds": round(time.monotonic() - begun, 1)}
