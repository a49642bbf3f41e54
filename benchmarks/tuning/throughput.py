"""Trials per second, against Kernel Tuner on the same kernel and the same space in one run.

    python -m benchmarks.tuning.throughput              # C, with Kernel Tuner in a venv of its own
    python -m benchmarks.tuning.throughput --target cuda --compiler nvrtc --no-peer

Both tools measure every configuration of the space once, without any cache of compiled code, with
the same compiler flags and as many runs of each kernel; as it does by default, autotune adds runs
near the best and checks results, Kernel Tuner checks none; autotune's race of the best at the end
is left out, being no trial. They take turns, so that a change of the machine's load hits both.
Besides trials per second the run shows autotune's own cost of a trial: CPU time of the calling
process from one result to the next, and of the worker processes without compilers and trials.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.tuner import GridSearchTuner
from autotune.tuner.callback import log_to_file

HERE = Path(__file__).resolve().parents[1]
PEER = "kernel_tuner==1.5.0"
SIZE = 192
_LOOK_EVERY = 10
RUNS = 7  # Kernel Tuner's default number of runs
FLAGS = ["-O3", "-march=native", "-fopenmp"]

GEMM_C = """
void gemm(const float *__restrict__ a, const float *__restrict__ b,
          float *__restrict__ c) {
#pragma omp parallel for schedule(static)
  for (int i0 = 0; i0 < N; i0 += TILE_I)
    for (int k0 = 0; k0 < N; k0 += TILE_K)
      for (int j0 = 0; j0 < N; j0 += TILE_J)
        for (int i = i0; i < i0 + TILE_I; i++)
          for (int k = k0; k < k0 + TILE_K; k++)
            for (int j = j0; j < j0 + TILE_J; j++)
              c[i * N + j] = (k ? c[i * N + j] : 0.0f) + a[i * N + k] * b[k * N + j];
}
"""
GEMM_CUDA = """
extern "C" __global__ void __launch_bounds__((TILE_I / ROWS) * TILE_J)
gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c) {
  __shared__ float as[TILE_I][TILE_K];
  __shared__ float bs[TILE_K][TILE_J];
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * TILE_J + tx;
  const int threads = (TILE_I / ROWS) * TILE_J;
  float sum[ROWS] = {};
  for (int k0 = 0; k0 < N; k0 += TILE_K) {
    for (int e = t; e < TILE_I * TILE_K; e += threads)
      as[e / TILE_K][e % TILE_K] = a[(blockIdx.y * TILE_I + e / TILE_K) * N + k0 + e % TILE_K];
    for (int e = t; e < TILE_K * TILE_J; e += threads)
      bs[e / TILE_J][e % TILE_J] = b[(k0 + e / TILE_J) * N + blockIdx.x * TILE_J + e % TILE_J];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE_K; k++)
#pragma unroll
      for (int r = 0; r < ROWS; r++) sum[r] += as[ty * ROWS + r][k] * bs[k][tx];
    __syncthreads();
  }
  for (int r = 0; r < ROWS; r++)
    c[(blockIdx.y * TILE_I + ty * ROWS + r) * N + blockIdx.x * TILE_J + tx] = sum[r];
}
"""
KNOBS: dict[str, dict[str, list[int]]] = {
    "c": {
        "TILE_I": [2, 4, 8, 16, 32],
        "TILE_K": [4, 8, 16, 32, 64],
        "TILE_J": [32, 64, 96, 192],
    },
    "cuda": {
        "TILE_I": [8, 16, 32, 64],
        "TILE_J": [16, 32, 64, 128],
        "TILE_K": [8, 16, 32, 64],
        "ROWS": [1, 2, 4, 8],
    },
}
CUDA_SIZE = 1024


@at.template("benchmark.throughput.gemm")
def gemm(n: int, language: str) -> SourceKernel:
    cfg = at.get_config()
    for name, values in KNOBS[language].items():
        cfg.define_knob(name, values)
    cfg.add_flop(2 * n**3)
    knobs = {name: cfg[name].val for name in KNOBS[language]}
    grid: Sequence[int] = (1,)
    block: Sequence[int] = (1,)
    if language == "cuda":
        grid = (n // knobs["TILE_J"], n // knobs["TILE_I"])
        block = (knobs["TILE_J"], knobs["TILE_I"] // knobs["ROWS"])
    return SourceKernel(
        "gemm",
        GEMM_C if language == "c" else GEMM_CUDA,
        defines={"N": n, **knobs},
        grid=grid,
        block=block,
        args=[arg("a", (n, n)), arg("b", (n, n)), arg("c", (n, n), role="out")],
        reference=lambda a, b: a @ b,
    )


class CpuPerResult:
    """A callback that notes the CPU time of this process from result to result."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = time.process_time()

    def __call__(self, tuner: object, inputs: Sequence[object], results: Sequence[object]) -> None:
        """Share what was used since the last call among the results."""
        now = time.process_time()
        self.seconds += [(now - self._last) / len(results)] * len(results)
        self._last = now


class WorkerCpu:
    """A callback that notes the CPU time of the workers themselves, without their children."""

    def __init__(self, option: dict[str, Any]) -> None:
        self._option = option
        self.trials = 0
        self._seen = 0
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}

    def __call__(self, tuner: object, inputs: Sequence[object], results: Sequence[object]) -> None:
        """Look at the clocks of all workers, now and then: looking is not free either."""
        self._seen += len(results)
        if self._seen < _LOOK_EVERY:
            return
        self.trials += self._seen if self._first else 0
        self._seen = 0
        for part in ("builder", "runner"):
            for pid in self._option[part].pids:
                self._last[pid] = own_cpu_s(pid)
                self._first.setdefault(pid, self._last[pid])

    @property
    def per_trial_s(self) -> float:
        """CPU time of all workers together, by trial."""
        used = sum(self._last[pid] - first for pid, first in self._first.items())
        return used / max(1, self.trials)


def own_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def run_autotune(target: str, compiler: str, limit: int | None) -> dict[str, Any]:
    language = "cuda" if target.startswith("cuda") else "c"
    size = SIZE if language == "c" else CUDA_SIZE
    task = at.create("benchmark.throughput.gemm", (size, language), target=target)
    builder = LocalBuilder(timeout=60, compiler=compiler, cache=False)  # type: ignore[arg-type]
    option = measure_option(builder, LocalRunner(number=1, repeat=RUNS, cooldown_interval=0))
    cpu, workers = CpuPerResult(), WorkerCpu(option)
    trials = min(limit or 1 << 30, len(task.config_space))
    results: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        GridSearchTuner(task).tune(
            trials,
            option,
            finalists=0,
            callbacks=[
                log_to_file(str(Path(folder, "log.json"))),
                lambda tuner, inputs, outcomes: results.extend(outcomes),
                workers,
                cpu,
            ],
        )
        seconds = time.perf_counter() - started
    good = [result for result in results if result.ok]
    return {
        "tool": "autotune",
        "trials": len(results),
        "failed": len(results) - len(good),
        "shared": sum("same_code_as" in result.extra for result in good),
        "verified": sum(result.extra["verified"] for result in good),
        "seconds": seconds,
        "trials_per_s": len(results) / seconds,
        "best_us": min((result.seconds for result in good), default=0) * 1e6,
        "caller_cpu_ms_median": statistics.median(cpu.seconds) * 1e3,
        "caller_cpu_ms_mean": statistics.fmean(cpu.seconds) * 1e3,
        "worker_cpu_ms_mean": workers.per_trial_s * 1e3,
    }


# Runs in the peer's own environment. A C kernel times itself there; the wrapper does that.
PEER_SCRIPT = """
import json, sys, time
import numpy
import kernel_tuner
job = json.load(sys.stdin)
n = job["size"]
rng = numpy.random.default_rng(0)
a, b = (rng.uniform(-1, 1, (n, n)).astype(numpy.float32) for _ in range(2))
source = "#include <time.h>\\n#define N %d\\n" % n + job["source"] + '''
float timed_gemm(const float *a, const float *b, float *c) {
  struct timespec s, e;
  clock_gettime(CLOCK_MONOTONIC, &s);
  gemm(a, b, c);
  clock_gettime(CLOCK_MONOTONIC, &e);
  return 1e3f * (e.tv_sec - s.tv_sec) + 1e-6f * (e.tv_nsec - s.tv_nsec);
}
'''
started = time.perf_counter()
results, _ = kernel_tuner.tune_kernel(
    "timed_gemm", source, 1, [a, b, numpy.zeros((n, n), numpy.float32)], job["knobs"],
    lang="C", compiler="cc", compiler_options=job["flags"], iterations=job["runs"], quiet=True,
    strategy="random_sample" if job["limit"] else "brute_force",
    strategy_options={"max_fevals": job["limit"]} if job["limit"] else {},
)
seconds = time.perf_counter() - started
times = [r["time"] for r in results if isinstance(r["time"], (int, float))]
print("RESULT " + json.dumps({
    "tool": "Kernel Tuner", "trials": len(results), "failed": len(results) - len(times),
    "seconds": seconds, "trials_per_s": len(results) / seconds, "best_us": min(times) * 1e3,
}))
"""


def run_peer(python: Path, limit: int | None) -> dict[str, Any]:
    job = {
        "size": SIZE,
        "source": GEMM_C,
        "knobs": KNOBS["c"],
        "flags": FLAGS,
        "runs": RUNS,
        "limit": limit,
    }
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(python), "-c", PEER_SCRIPT],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"Kernel Tuner failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return dict(json.loads(lines[-1].removeprefix("RESULT ")))


def peer_python(venv: Path) -> Path:
    """Return the interpreter of an environment that has Kernel Tuner; make it if needed."""
    python = venv / "bin" / "python"
    if not python.exists():
        print(f"installing {PEER} into {venv}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", PEER], check=True)
    return python


def show(row: dict[str, Any]) -> None:
    text = f"{row['tool']:<14} {row['trials']:>5} trials {row['seconds']:8.1f} s"
    text += f" {row['trials_per_s']:7.1f} trials/s   best {row['best_us']:.1f} us"
    if "caller_cpu_ms_median" in row:
        text += f"   own CPU a trial: caller {row['caller_cpu_ms_median']:.2f} ms median,"
        text += f" workers {row['worker_cpu_ms_mean']:.2f} ms mean"
    print(text, flush=True)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="c", help="c, or cuda with options")
    parser.add_argument("--compiler", default="nvcc", choices=["nvcc", "nvrtc"])
    parser.add_argument("--limit", type=int, help="trials at most, of either tool")
    parser.add_argument("--rounds", type=int, default=3, help="turns of either tool")
    parser.add_argument("--no-peer", action="store_true", help="leave Kernel Tuner out")
    parser.add_argument("--peer-venv", type=Path, default=HERE / "results" / "peer-venv")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "throughput.json")
    options = parser.parse_args(argv)
    with_peer = not options.no_peer and not options.target.startswith("cuda")
    python = peer_python(options.peer_venv) if with_peer else None
    rows = []
    for _ in range(options.rounds):
        rows.append(run_autotune(options.target, options.compiler, options.limit))
        show(rows[-1])
        if python is not None:
            rows.append(run_peer(python, options.limit))
            show(rows[-1])
    ours = statistics.median(r["trials_per_s"] for r in rows if r["tool"] == "autotune")
    report: dict[str, Any] = {"target": options.target, "rows": rows, "autotune_per_s": ours}
    if python is not None:
        theirs = statistics.median(r["trials_per_s"] for r in rows if r["tool"] != "autotune")
        report |= {"kernel_tuner_per_s": theirs, "ratio": ours / theirs}
        print(f"ratio {ours / theirs:.2f} (medians of {options.rounds} turns)")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main()
