"""A fleet of many workers, simulated: what the client's scheduler costs, and where it breaks.

    python -m benchmarks.fleet.simulation --workers 10 100 1000 --trials 20000
    python -m benchmarks.fleet.simulation --workers 1000 --trials 1000000

What hands out work is the fleet's own `autotune.fleet.queue.FleetQueue` with its policy; only its
threads, the network and the workers are simulated, by discrete events. How long a trial compiles
and how long its device is at work comes from the recordings in `tests/data/recorded_spaces`: the
seconds that its evaluation took, and `RUNS` times its time beside `FIXED_S`. The client is one
server: an event that comes while it is at work on others waits. A decision takes it the CPU time
that it really takes here, and each message `--message-us` more.

Workers are killed at random, once an hour each on average, and come back after a minute.

Printed for each number of workers: trials/s, share of the time that devices were at work, CPU
time of the scheduler per trial (all decisions: placing and taking back of the build and of the
run), how busy the client was, how long events waited for it (median and 99th percentile),
and how many builds and runs waited for a place (mean and most).
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from autotune.fleet.policy import Needs, Place
from autotune.fleet.queue import FleetQueue, PlaceLost, Work
from benchmarks.tuning.search import SPACES

# Runs of a trial on its device, and what loading, warming up and checking take besides.
RUNS, FIXED_S = 17, 0.02
BUILDERS, AHEAD = 4, 2
LATENCY_S = 1e-3
HOUR_S, BACK_S, TICK_S = 3600.0, 60.0, 1.0
BUILD, RUN = Needs("build"), Needs("run", device="cuda")


@dataclass
class Trial:
    """The duration of one trial's compilation, and of its run."""

    build_s: float
    run_s: float
    stage: str = "build"


@dataclass
class Worker:
    """One host: a place to compile and a device; each has its servers."""

    number: int
    here: bool = True
    builders: list[float] = field(default_factory=lambda: [0.0] * BUILDERS)
    device_free: float = 0.0
    at_work_s: float = 0.0


class Handed:
    """Stands for the threads of the queue: keeps what is handed out, to be done later."""

    def __init__(self) -> None:
        self.out: list[tuple[int, object, int]] = []

    def submit(self, do: object, number: int, entry: object, attempt: int) -> None:
        """Take what a thread would begin with."""
        self.out.append((number, entry, attempt))


class Simulation:
    """One run: so many workers, so many trials."""

    def __init__(self, workers: int, trials: int, message_s: float, kernels: str, seed: int):
        self.rng = np.random.default_rng(seed)
        self.build_s, self.run_s = recorded(kernels)
        self.now, self.client_free, self.message_s = 0.0, 0.0, message_s
        self.queue = FleetQueue(HOUR_S, lambda: self.now)
        self.handed = Handed()
        self.queue._threads = self.handed  # type: ignore[assignment]
        self.workers = [Worker(number) for number in range(workers)]
        self.events: list[tuple[float, int, str, tuple[object, ...]]] = []
        self.count = 0
        self.left, self.ended = trials, 0
        self.cpu_s = self.busy_s = 0.0
        self.delays: list[float] = []
        self.waiting = {BUILD: [0.0, 0], RUN: [0.0, 0]}
        self.gone: set[int] = set()
        self.lost = 0

    # ---- the clock

    def at(self, when: float, what: str, *about: object) -> None:
        """Let something happen at a time."""
        self.count += 1
        heapq.heappush(self.events, (when, self.count, what, about))

    def costing(self, do: object, *args: object) -> object:
        """Let the client do something, which takes it as long as it takes here."""
        began = time.thread_time()
        result = do(*args)  # type: ignore[operator]
        spent = time.thread_time() - began
        self.cpu_s += spent
        self.busy_s += spent
        self.client_free = max(self.now, self.client_free) + spent
        self._send()
        return result

    def _send(self) -> None:
        """What was handed out reaches its place, one message after another."""
        for number, entry, attempt in self.handed.out:
            self.client_free += self.message_s
            self.busy_s += self.message_s
            self._serve(number, entry, attempt, self.client_free + LATENCY_S)
        self.handed.out.clear()

    def _serve(self, number: int, entry: object, attempt: int, when: float) -> None:
        worker = self.workers[number // 2]
        trial = entry.pending.work.do.trial  # type: ignore[attr-defined]
        if number % 2:
            start = max(when, worker.device_free)
            worker.device_free = end = start + trial.run_s
            worker.at_work_s += trial.run_s
        else:
            start = max(when, heapq.heappop(worker.builders))
            end = start + trial.build_s
            heapq.heappush(worker.builders, end)
        self.at(end + LATENCY_S, "answer", number, entry, attempt)

    # ---- what happens

    def run(self) -> dict[str, object]:
        """Let all trials come to their end, and say how that went."""
        for worker in self.workers:
            self._join(worker)
            self.at(float(self.rng.exponential(HOUR_S)), "die", worker)
        # As many as a session keeps under way: see `Session.capacity`.
        for _ in range(min(self.left, 2 * len(self.workers) * (BUILDERS + 1))):
            self._propose()
        self.at(TICK_S, "tick")
        while self.ended < self.total:
            when, _, what, about = heapq.heappop(self.events)
            self.now = max(when, self.client_free)
            self.delays.append(self.now - when)
            getattr(self, f"_{what}")(*about)
            self._watch()
        return self._report()

    @property
    def total(self) -> int:
        """The number of trials."""
        return self.left + self.ended + self.under_way

    under_way = 0

    def _propose(self) -> None:
        if not self.left:
            return
        self.left -= 1
        self.under_way += 1
        row = int(self.rng.integers(len(self.build_s)))
        self._put(Trial(float(self.build_s[row]), float(self.run_s[row])))

    def _put(self, trial: Trial) -> None:
        needs = BUILD if trial.stage == "build" else RUN
        work = Work(
            _Doing(self, trial), lambda outcome: 0, lambda why: why, lambda outcome, why: outcome
        )
        future = self.costing(self.queue.put, needs, work)
        future.add_done_callback(lambda _: self.done.append(trial))  # type: ignore[attr-defined]

    def _answer(self, number: int, entry: object, attempt: int) -> None:
        self.done: list[Trial] = []
        self.costing(self.queue._do, number, entry, attempt)
        for trial in list(self.done):
            if trial.stage == "build":
                trial.stage = "run"
                self._put(trial)
            else:
                self.ended += 1
                self.under_way -= 1
                self._propose()

    def _die(self, worker: Worker) -> None:
        worker.here = False
        for number in (2 * worker.number, 2 * worker.number + 1):
            self.gone.add(number)
            self.costing(self.queue.leave, number)
        self.at(self.now + BACK_S, "back", worker)

    def _back(self, worker: Worker) -> None:
        worker.builders, worker.device_free = [self.now] * BUILDERS, self.now
        self._join(worker)
        self.at(self.now + float(self.rng.exponential(HOUR_S)), "die", worker)

    def _join(self, worker: Worker) -> None:
        worker.here = True
        name = f"worker-{worker.number}"
        places = [
            Place(
                2 * worker.number, name, f"{name}/builders", "build", BUILDERS + 2, lanes=BUILDERS
            ),
            Place(2 * worker.number + 1, name, f"{name}/cuda:0", "run", AHEAD, "cuda"),
        ]
        for place in places:
            self.gone.discard(place.number)
            self.costing(self.queue.join, place)

    def _tick(self) -> None:
        self.costing(self.queue.tick)
        self.at(self.now + TICK_S, "tick")

    def _watch(self) -> None:
        for needs, (_, most) in self.waiting.items():
            length = len(self.queue._policy._lines.get(needs, ()))
            self.waiting[needs][0] += length
            self.waiting[needs][1] = max(most, length)

    def _report(self) -> dict[str, object]:
        delays, steps = np.array(self.delays), len(self.delays)
        at_work = sum(worker.at_work_s for worker in self.workers)
        return {
            "workers": len(self.workers),
            "trials": self.ended,
            "trials_per_s": round(self.ended / self.now, 1),
            "devices_at_work": round(at_work / (self.now * len(self.workers)), 3),
            "cpu_us_per_trial": round(self.cpu_s / self.ended * 1e6, 1),
            "client_busy": round(self.busy_s / self.now, 3),
            "delay_ms": [round(1e3 * float(q), 2) for q in np.quantile(delays, (0.5, 0.99))],
            "builds_waiting": [round(self.waiting[BUILD][0] / steps), self.waiting[BUILD][1]],
            "runs_waiting": [round(self.waiting[RUN][0] / steps), self.waiting[RUN][1]],
            "lost": self.lost,
            "simulated_s": round(self.now),
        }


class _Doing:
    """What a thread would do: it has an answer at once, as its time has passed already."""

    def __init__(self, simulation: Simulation, trial: Trial) -> None:
        self._simulation, self.trial = simulation, trial

    def __call__(self, number: int) -> str:
        if number in self._simulation.gone:
            self._simulation.lost += 1
            raise PlaceLost("it was killed")
        return "done"


def recorded(kernels: str) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds of compiling, and of the device, of trials that were recorded."""
    build, run = [], []
    for path in sorted(Path(SPACES).glob(f"{kernels}.npz")):
        with np.load(path) as data:
            times, costs = data["times"], data["costs"]
        ran = ~np.isnan(times)
        build.append(costs[ran])
        run.append(FIXED_S + RUNS * times[ran] * 1e-3)
    return np.concatenate(build), np.concatenate(run)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--message-us", type=float, default=200.0)
    parser.add_argument("--kernels", default="*", help="recordings, such as 'convolution__*'")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    for workers in args.workers:
        one = Simulation(workers, args.trials, args.message_us * 1e-6, args.kernels, args.seed)
        print(json.dumps(one.run()), flush=True)


if __name__ == "__main__":
    main()
