"""Times of several ways to do the same, taken in turns."""

from __future__ import annotations

import contextlib
import fcntl
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


def in_turns(
    samplers: Mapping[str, Callable[[], float]], rounds: int, warm: int = 1
) -> dict[str, list[float]]:
    """Return the seconds of each way in ``rounds``, after some that warm up and do not count."""
    taken: dict[str, list[float]] = {key: [] for key in samplers}
    for number in range(warm + rounds):
        for key, sample in samplers.items():
            seconds = sample()
            if number >= warm:
                taken[key].append(seconds)
    return taken


def in_words(seconds: Sequence[float]) -> str:
    """Return the median in microseconds, and in brackets the least and the most."""
    low, middle, high = (1e6 * each(seconds) for each in (min, statistics.median, max))
    return f"{middle:8.1f} us ({low:.1f} to {high:.1f})"


@contextlib.contextmanager
def alone(path: str | None) -> Iterator[None]:
    """Let processes that prepare side by side use the device one after another.

    Args:
        path: a file, which the one that uses it locks; None if there are no others.
    """
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def torch_sampler(torch: Any, run: Callable[[], Any], runs: int) -> Callable[[], float]:
    """Return what replays the CUDA graph of a function, and returns the seconds of a run."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
        stream.synchronize()
        replayed = torch.cuda.CUDAGraph()
        with torch.cuda.graph(replayed, stream=stream):
            outputs = run()
    kept = run, outputs  # a graph holds addresses only: torch would give their memory to others
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample() -> float:
        assert kept
        with torch.cuda.stream(stream):
            start.record()
            for _ in range(runs):
                replayed.replay()
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / runs

    return sample
