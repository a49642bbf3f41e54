"""The cost of the live page to a run: trials per second and CPU time, with and without it.

    python -m benchmarks.live_page --throughput [--browser]

One task is tuned again and again in one session: without a page, and with a page that a process of
its own receives, or a headless Chromium draws. Two turns with the same seed make the same trials,
compiled anew each time, so that neither finds in a cache what the other left there; they are a
pair, of which now the one and now the other comes first. A turn is timed from its 60th result to
its last: what the page loads once, for the importance of knobs, is told apart. The interval of the
ratio is of pairs drawn with replacement.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import autotune.templates  # noqa: F401 - registers them

from autotune import Session, create
from autotune.measure import LocalBuilder, LocalRunner
from autotune.tuner import RandomTuner, callback
from autotune.tuner.display.page import LivePage

# A small convolution: trials end quickly, so that the page has much to tell.
CONV = (1, 7, 7, 32, 32, 3, 3, 1, 1, False, False)
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
_DRAWN = 2000
_FIRST = 60
# Seconds that a server may take to start.
_START_S = 60
# Cores that others use, beyond which a comparison by time says little.
_BUSY = 0.3


@contextlib.contextmanager
def served(log: Path) -> Iterator[tuple[str, int]]:
    """Yield the link to a page of a log, as soon as the server listens, and its process."""
    command = [sys.executable, "-m", "autotune.dashboard", "--port", "0", str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["link"], process.pid
        process.terminate()


def chromium() -> Any:
    """Return a headless Chromium, driven by Selenium."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in _FLAGS:
        options.add_argument(flag)
    service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


@dataclass(frozen=True)
class Turn:
    """One run.

    Attributes:
        per_s: trials a second.
        caller_ms, page_ms: CPU time a trial of the process that tunes, and of the page's server.
        once_s: CPU time of the page's server before that.
    """

    per_s: float
    caller_ms: float
    page_ms: float
    once_s: float


def throughput(trials: int, pairs: int, browser: bool) -> None:
    """Print what each pair of turns gave, and the throughput with the page in parts of without."""
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    if os.getloadavg()[0] > _BUSY:
        print(f"the machine is busy (load {os.getloadavg()[0]:.1f}): CPU times hold, rates do not")
    looks = chromium() if browser else None
    found: list[tuple[Turn, Turn]] = []
    with Session(LocalBuilder(cache=False), LocalRunner()) as session:
        _tuned(session, 20, seed=pairs)  # starts what is started once
        for seed in range(pairs):
            turns = {}
            for page in (False, True) if seed % 2 else (True, False):
                turns[page] = _turn(session, trials, seed, page, looks)
            found.append((turns[True], turns[False]))
            print(_row(*found[-1]), flush=True)
    if looks is not None:
        looks.quit()
    _summary(found)


def _row(paged: Turn, plain: Turn) -> str:
    return (
        f"with the page {paged.per_s:6.2f} trials/s, without {plain.per_s:6.2f}; "
        f"ratio {paged.per_s / plain.per_s:.3f}; CPU a trial {paged.caller_ms:.2f} ms, "
        f"without {plain.caller_ms:.2f}; of the page {paged.page_ms:.2f}"
    )


def _summary(found: Sequence[tuple[Turn, Turn]]) -> None:
    ratios = [paged.per_s / plain.per_s for paged, plain in found]
    cpu = [paged.caller_ms / plain.caller_ms for paged, plain in found]
    page = statistics.median(paged.page_ms for paged, _ in found)
    for name, values in (("trials/s", ratios), ("CPU time of the caller", cpu)):
        low, high = interval(values)
        middle = statistics.median(values)
        print(f"{name} with the page: {middle:.3f} of without (95%: {low:.3f} to {high:.3f})")
    once = statistics.median(paged.once_s for paged, _ in found)
    print(f"CPU time of the page: {page:.2f} ms a trial, and {once:.1f} s once, at low priority")


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval of the median, by drawing values with replacement."""
    draw = random.Random(0)
    many = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(_DRAWN))
    return many[_DRAWN // 40], many[-_DRAWN // 40]


def _turn(session: Session, trials: int, seed: int, page: bool, looks: Any) -> Turn:
    """Tune once, with the page or without."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        log = Path(folder) / "run.log"
        live = LivePage(log) if page else None
        if live is not None:
            link = _started(live)
            stack.callback(live.close)
            stack.enter_context(_browsed(looks, link) if looks else _watched(link))
            time.sleep(1)
        return _tuned(session, trials, seed, log, live)


def _tuned(
    session: Session,
    trials: int,
    seed: int,
    log: Path | None = None,
    page: LivePage | None = None,
) -> Turn:
    """Tune once, and look at the clocks after the first results and after the last."""
    task = create("conv2d_nchw.cpu", args=CONV, target="c")
    seen = 0
    clocks: list[tuple[float, ...]] = []

    def note(tuner: object, inputs: Sequence[object], results: Sequence[object]) -> None:
        nonlocal seen
        seen += len(results)
        if (not clocks and seen >= min(_FIRST, trials // 2)) or seen >= trials:
            page_s = cpu_s(page.pid) if page is not None and page.pid else 0.0
            clocks.append((seen, time.monotonic(), time.process_time(), page_s))

    callbacks: list[Any] = [note, *([callback.log_to_file(log)] if log else [])]
    callbacks += [page] if page is not None else []
    RandomTuner(task, seed=seed).tune(trials, session, callbacks=callbacks, finalists=0)
    first, last = clocks[0], clocks[-1]
    count, wall_s, caller_s, page_s = (b - a for a, b in zip(first, last, strict=True))
    return Turn(count / wall_s, 1e3 * caller_s / count, 1e3 * page_s / count, first[3])


def _started(page: LivePage) -> str:
    """Return the link to a page, as soon as its server listens."""
    page.tuning(None)
    end = time.monotonic() + _START_S
    while not page.link and time.monotonic() < end:
        time.sleep(0.01)
    assert page.link, "the page was not served"
    return page.link


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _browsed(looks: Any, link: str) -> Iterator[None]:
    looks.get(link)
    yield
    looks.get("about:blank")


@contextlib.contextmanager
def _watched(link: str) -> Iterator[None]:
    """Let a process of its own receive all that the page is sent."""
    command = [sys.executable, "-m", "benchmarks.live_page.throughput", "--watch", link]
    with subprocess.Popen(command) as process:
        yield
        process.terminate()


async def _watch(link: str) -> None:
    from tornado.httpclient import HTTPRequest
    from tornado.websocket import websocket_connect

    request = HTTPRequest(f"{link.replace('http', 'ws')}live", headers={"Origin": link[:-1]})
    socket = await websocket_connect(request, max_message_size=1 << 28)
    await socket.write_message(json.dumps({"workload": 0}))
    while await socket.read_message() is not None:
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--watch", required=True, help="receive what the page at a link is sent")
    asyncio.run(_watch(parser.parse_args().watch))
