"""The cost of the live page: the time to its first picture, and the load on a run.

    python -m benchmarks.live_page                      # 100,000 records; needs chromium, selenium
    python -m benchmarks.live_page --throughput         # a run on the CPU with it and without
    python -m benchmarks.live_page --throughput --browser   # with the page in headless Chromium

The first measures from the call of the link to the first picture, in headless Chromium, of a
server that was started just before and of one that had read the log. The second is
`benchmarks.live_page.throughput`; it wants an idle machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.live_page.throughput import chromium, served, throughput
from benchmarks.tuning.logs import write_rows


def first_picture(records: int, turns: int) -> None:
    """Print milliseconds to the first picture, and to that of all records."""
    driver = chromium()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "big.log"
        write_rows(log, records, ours=True)
        for _ in range(turns):
            with served(log) as (link, _):
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


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--turns", type=int, help="of either; by default 3, or 10 pairs")
    parser.add_argument("--throughput", action="store_true")
    parser.add_argument("--trials", type=int, default=240)
    parser.add_argument("--browser", action="store_true", help="a browser looks at the page")
    options = parser.parse_args()
    if options.throughput:
        throughput(options.trials, options.turns or 10, options.browser)
    else:
        first_picture(options.records, options.turns or 3)


if __name__ == "__main__":
    main()
