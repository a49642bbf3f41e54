"""Check the checker: right kernels must pass, planted errors must not.

    python -m benchmarks.verification [--target cuda|c] [--only softmax] [--configs 2] [--small]

Every shipped template and every operator of topi is built for small, large, odd and long shapes,
run, and judged against its reference as a trial is. A refusal is a false one. Then errors are
planted in what each kernel wrote - one wrong element, swapped rows, an answer to other inputs,
NaN, a shift of all elements by most of what one may be off - and a term of each sum is taken
away; what passes is a miss. Prints a line for each case that went wrong and a summary, and writes
JSON with ``--out``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autotune.driver import kernel_of
from autotune.errors import AutotuneError
from autotune.kernel import Kernel, SourceKernel
from autotune.measure.check.inspection import Inspection
from autotune.measure.check.verify import Oracle
from autotune.measure.run.value_files import read_values
from autotune.measure.types import MeasureInput
from autotune.runtime import Buffers, compile_kernel, device, load
from autotune.target import Target
from autotune.task import create
from benchmarks.verification.cases import Case, cases

F4 = "float32"


@dataclass
class Found:
    """The result of one kernel."""

    case: str
    refused: str = ""
    failed: str = ""
    planted: int = 0
    missed: list[str] = field(default_factory=list)
    seconds: float = 0.0


# ---- running -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """A kernel that is built, with its reference."""

    case: Case
    label: str
    kernel: Kernel
    artifact: str
    oracle: Oracle
    inputs: tuple[str, ...]
    checks: tuple[Any, ...]


def prepare(
    case: Case, label: str, inp: MeasureInput, target: Target, folder: str, oracle: Oracle
) -> Prepared:
    """Build one configuration and compute its reference."""
    made = inp.task.instantiate(inp.config)
    if isinstance(made, SourceKernel):
        kernel = made.kernel(target.language)
    else:
        kernel = kernel_of(made, target, "verified")
    built = compile_kernel(kernel, target, out_dir=folder)
    data = oracle.data(inp, kernel)
    return Prepared(case, label, kernel, built.artifact, oracle, data.inputs, data.checks)


def judge(one: Prepared, where: Any) -> Found:
    """Run a kernel as a trial does, then plant errors in what it wrote."""
    found = Found(one.label)
    started = time.perf_counter()
    read = [a for a in one.kernel.args if a.role != "out"]
    values = [np.array(read_values(p, a.dtype)) for p, a in zip(one.inputs, read, strict=True)]
    with load(one.artifact, one.kernel, where) as executable:
        buffers = Buffers(one.kernel.args, where, values)
        inspection = Inspection(buffers, one.checks)
        found.refused = inspection.run(executable).message or ""
        if not one.checks:
            found.failed = "no reference"
        if not found.refused and one.checks:
            right = buffers.written()[0].numpy()
            for name, wrong in planted(right, one.checks[0]):
                found.planted += 1
                buffers.written()[0].copyfrom(wrong)
                if not inspection.differences():
                    found.missed.append(name)
            without_term(one, where, executable, values, inspection, found)
    found.seconds = time.perf_counter() - started
    return found


def planted(right: Any, check: Any) -> Iterator[tuple[str, Any]]:
    """Yield wrong versions of a right output."""
    rng = np.random.default_rng(0)
    bounds = read_values(check.bounds, F4).astype("f8") if check.bounds else np.zeros(right.shape)
    floats = right.dtype.kind not in "iub"
    wide = right.astype("f8")
    if not np.isfinite(bounds).all():
        return
    place = int(rng.integers(right.size))
    one = wide.copy()
    if right.dtype == np.bool_:
        one.flat[place] = -one.flat[place]
    one.flat[place] += max(
        64 * bounds.flat[place], abs(one.flat[place]) * 1e-2, 1 if not floats else 1e-6
    )
    yield "one wrong element", back(one, right)
    if right.ndim > 1 and right.shape[0] > 1 and np.any(np.abs(wide[0] - wide[1]) > bounds[0]):
        swapped = right.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        yield "two rows swapped", swapped
    rolled = np.roll(right, 1)
    if np.any(np.abs(rolled.astype("f8") - wide) > bounds):
        yield "off by one", rolled
    if floats:
        unwritten = right.copy()
        unwritten.flat[-1] = np.nan
        yield "NaN", unwritten
        if np.any(np.abs(wide) > bounds):
            yield "zeros", np.zeros_like(right)
    # A shift that a dtype cannot show is no error.
    shifted = back(wide + 0.9 * bounds, right)
    shown = np.abs(shifted.astype("f8") - wide) > 0.8 * bounds
    if floats and right.size >= 64 and shown.mean() > 0.9 and np.mean(bounds > 0) > 0.9:
        yield "a drift of all elements", shifted


def back(values: Any, like: Any) -> Any:
    """Return values in the dtype of an array."""
    with np.errstate(all="ignore"):
        return (values > 0.5 if like.dtype == np.bool_ else values).astype(like.dtype)


def without_term(
    one: Prepared, where: Any, executable: Any, values: list[Any], inspection: Any, found: Found
) -> None:
    """Let the kernel compute with one term less in each of its sums."""
    if one.case.cut is None:
        return
    less = [v.copy() for v in values]
    less[0][one.case.cut] = one.case.without
    buffers = Buffers(one.kernel.args, where, less)
    executable.run(buffers)
    inspection.buffers.written()[0].copyfrom(buffers.written()[0])
    found.planted += 1
    if not inspection.differences():
        found.missed.append("a term missing")


def jobs(
    target: Target, args: argparse.Namespace, found: list[Found]
) -> Iterator[tuple[Case, str, MeasureInput]]:
    """Return the configurations to judge; a case that has none is found to have failed."""
    for case in cases(args.target, args.small):
        label = " ".join(map(str, (case.name, *case.args)))
        if args.only and args.only not in label:
            continue
        count = 1 if case.name == "verification/topi" else args.configs
        try:
            inputs = drawn(case, target, count)
        except Exception as error:  # one case must not end the sweep
            found.append(Found(label, failed=f"{type(error).__name__}: {error}"))
            _show(found[-1])
            continue
        for inp in inputs:
            yield case, f"{label} #{inp.config.index}", inp


def drawn(case: Case, target: Target, count: int) -> list[MeasureInput]:
    """Return configurations of a case that its template accepts."""
    task = create(case.name, case.args, target=target)
    inputs: list[MeasureInput] = []
    for index in task.config_space.sample(4 * count, np.random.default_rng(1)):
        inp = MeasureInput(target, task, task.config_space.get(int(index)))
        with suppress(AutotuneError):
            task.instantiate(inp.config)
            inputs.append(inp)
        if len(inputs) == count:
            return inputs
    if not inputs:
        raise AutotuneError("none of the configurations drawn can be instantiated")
    return inputs


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sweep; the status is the number of cases that went wrong, at most 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", choices=("c", "cuda"), default="c")
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--configs", type=int, default=2, help="configurations of each template")
    parser.add_argument("--small", action="store_true", help="the smallest shapes only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long; 0 for never")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    where = device(args.target)
    arch = "" if args.target == "c" else f" -arch=sm_{where.compute_version.replace('.', '')}"
    target = Target(args.target + arch)
    found = swept(target, where, args)
    bad = [f for f in found if f.refused or f.missed or f.failed]
    refused = sum(bool(f.refused) for f in found)
    planted_count, missed = sum(f.planted for f in found), sum(len(f.missed) for f in found)
    print(
        f"{len(found)} kernels on {target}: {refused} refused falsely, "
        f"{sum(bool(f.failed) for f in found)} not judged; {planted_count} planted errors, "
        f"{missed} missed"
    )
    if args.out:
        args.out.write_text(json.dumps([asdict(f) for f in found], indent=1))
    return int(bool(bad))


def _show(one: Found) -> None:
    if one.refused or one.missed or one.failed:
        what = one.failed or one.refused or f"missed: {', '.join(one.missed)}"
        print(f"{one.case}: {what.splitlines()[0]}", flush=True)


def swept(target: Target, where: Any, args: argparse.Namespace) -> list[Found]:
    """Prepare on all cores, judge one after another, until the time is over."""
    found: list[Found] = []
    deadline = time.monotonic() + (args.seconds or 1e9)
    wanted = jobs(target, args, found)
    oracles: list[Oracle] = []
    pool = ThreadPoolExecutor(args.jobs)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as at_end:
        waiting: deque[tuple[str, Future[Prepared]]] = deque()

        def close_all() -> None:
            for oracle in oracles:
                oracle.close()

        # What computes is ended, then threads that wait for it, then what they still began.
        at_end.callback(close_all)
        at_end.callback(pool.shutdown, cancel_futures=True)
        at_end.callback(close_all)
        while True:
            while len(waiting) < 2 * args.jobs and (job := next(wanted, None)) is not None:
                oracles.append(Oracle(seed=zlib.crc32(job[1].encode()) % 1000))
                waiting.append((job[1], pool.submit(prepare, *job, target, folder, oracles[-1])))
            if not waiting:
                break
            label, future = waiting.popleft()
            wait([future], timeout=max(0.0, deadline - time.monotonic()))
            if not future.done() or time.monotonic() > deadline:
                print(f"stopped after {args.seconds:g} s with cases left", flush=True)
                break
            found.append(outcome(label, future, where))
            _show(found[-1])
    return found


def outcome(label: str, future: Future[Prepared], where: Any) -> Found:
    """Judge a kernel when it is ready; whatever goes wrong must not end the sweep."""
    try:
        one = future.result()
        try:
            return judge(one, where)
        finally:
            one.oracle.close()
    except Exception as error:
        return Found(label, failed=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    raise SystemExit(main())
