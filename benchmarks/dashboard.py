"""What the live page costs: the time to its first picture, and what a run pays for it.

    python -m benchmarks.dashboard                      # 100,000 records; needs chromium, selenium
    python -m benchmarks.dashboard --throughput         # a run on the CPU with it and without

The first measures from the call of the link to the first picture, in headless Chromium, of a
server that was started just before and of one that had read the log. The second tunes one task in
turns, with a reader of the page who is sent everything, and without a page; it prints trials a
second, the CPU time of the process that tunes, and the share of the first with the page.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import autotune.templates  # noqa: F401 - registers them
from tornado.websocket import websocket_connect

from autotune import create, measure_option
from autotune.tuner import RandomTuner, callback
from autotune.tuner.page import LivePage
from benchmarks.logs import write_rows

logging.getLogger("autotvm").setLevel(logging.ERROR)
# A small convolution: trials end quickly, so that the page has much to tell.
CONV = (1, 7, 7, 32, 32, 3, 3, 1, 1, False, False)


@contextlib.contextmanager
def served(log: Path) -> Iterator[str]:
    """Yield the link to a page of a log, as soon as the server listens."""
    command = [sys.executable, "-m", "autotune.dashboard", "--port", "0", str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["link"]
        process.terminate()


def first_picture(records: int, turns: int) -> None:
    """Print milliseconds to the first picture, and to that of all records."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "big.log"
        write_rows(log, records, ours=True)
        for _ in range(turns):
            with served(log) as link:
                cold = _drawn(driver, link, "document.documentElement.dataset.drawn")
                whole = (
                    f"document.getElementById('filters-count').innerText.includes('{records:,}')"
                )
                _drawn(driver, None, whole)
                warm = _drawn(driver, link, whole)
                print(f"first picture {cold:.0f} ms, of a log that was read {warm:.0f} ms")
    driver.quit()


def _drawn(driver: Any, link: str | None, condition: str) -> float:
    """Return the milliseconds since the page was asked for when a condition is true."""
    if link:
        driver.get(link)
    while not driver.execute_script(f"return {condition}"):
        time.sleep(0.01)
    return float(driver.execute_script("return performance.now()"))


def throughput(trials: int, rounds: int) -> None:
    """Print trials a second with the page and without."""
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for turn in range(2 * rounds):
        page = turn % 2 == 1
        found[page].append(_tuned(trials, page, seed=turn // 2))
        print(
            "with the page" if page else "without",
            "{:.2f} trials/s, {:.2f} s of CPU".format(*found[page][-1]),
        )
    pairs = zip(found[True], found[False], strict=True)
    shares = [paged[0] / plain[0] for paged, plain in pairs]
    print(f"throughput with the page: {statistics.median(shares):.3f} of without (median)")


def _tuned(trials: int, page: bool, seed: int) -> tuple[float, float]:
    task = create("conv2d_nchw.cpu", args=CONV, target="c")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.log"
        live = LivePage(log)
        callbacks = [callback.log_to_file(log), *([live] if page else [])]
        if page:
            live.tuning(None)
            while not live.link:
                time.sleep(0.01)
            threading.Thread(target=_watch, args=(live.link,), daemon=True).start()
            time.sleep(1)
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        RandomTuner(task, seed=seed).tune(
            trials, measure_option("local", "local"), callbacks=callbacks, finalists=0
        )
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return trials / wall, cpu


def _watch(link: str) -> None:
    """Read all that the page is sent, until it ends."""

    async def read() -> None:
        from tornado.httpclient import HTTPRequest

        request = HTTPRequest(f"{link.replace('http', 'ws')}live", headers={"Origin": link[:-1]})
        socket = await websocket_connect(request, max_message_size=1 << 28)
        await socket.write_message(json.dumps({"workload": 0}))
        while await socket.read_message() is not None:
            pass

    asyncio.run(read())


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--throughput", action="store_true")
    parser.add_argument("--trials", type=int, default=60)
    options = parser.parse_args()
    if options.throughput:
        throughput(options.trials, options.turns)
    else:
        first_picture(options.records, options.turns)


if __name__ == "__main__":
    main()
