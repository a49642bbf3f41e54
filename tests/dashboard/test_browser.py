"""The page in a real browser: headless Chromium, driven by Selenium."""

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from autotune.dashboard import one_file, snapshot
from autotune.dashboard.page import assets
from tests.dashboard.browsing import (
    CHROMIUM,
    FLAGS,
    MARKS,
    WAIT_S,
    click,
    count_is,
    opened,
    tile,
    until,
)
from tests.dashboard.rows import log, race, row, run, text
from tests.dashboard.serving import proxied, served

pytestmark = MARKS


def test_the_page_draws_every_chart_and_asks_nobody_else(browser, site):
    opened(browser, site)
    until(browser, "document.querySelector('#importance-chart .bar')")
    for chart in ("best-chart", "knob-chart", "roofline-chart", "parallel-chart", "heat-chart",
                  "timeline-chart"):  # fmt: skip
        ink = browser.execute_script(INK, chart)
        assert ink > 200, f"{chart} is empty"
    assert tile(browser, "trials") == "420"
    assert "Final race" in browser.find_element("id", "winner-panel").text
    assert "RUNTIME_DEVICE" in browser.find_element("id", "failures-panel").text
    assert len(browser.find_elements("css selector", "#runs-panel tbody tr")) == 2
    asked = browser.execute_script(
        "return performance.getEntriesByType('resource').map((one) => one.name)"
    )
    assert len(asked) >= 10
    assert all(one.startswith(site) for one in asked if not one.startswith("data:"))


def test_energy_is_drawn_over_time_where_it_was_measured(browser, site, tmp_path):
    opened(browser, site)
    assert not browser.find_element("id", "energy").is_displayed()
    assert "energy" not in browser.find_element("id", "trials-table").text
    rows = run(80, energy=True)
    with served(log(tmp_path / "energy.log", rows)) as (link, _):
        opened(browser, link)
        assert browser.execute_script(INK, "energy-chart") > 200
        said = browser.find_element("id", "energy-note").text
        known = sum("energy" in one for one in rows)
        assert f"of {known} trials with energy, the fastest takes" in said
        label = "document.getElementById('energy-chart').getAttribute('aria-label')"
        assert browser.execute_script(f"return {label}") == said
        click(browser, "[data-key='sort joules']")
        until(browser, "document.querySelector('[aria-sort]:not([aria-sort=none])')"
              ".innerText.includes('energy')")  # fmt: skip
        least = min(one["energy"]["joules"] for one in rows if "energy" in one)
        heads = browser.execute_script(  # at once: the table may be drawn anew meanwhile
            "return [...document.querySelectorAll('#trials-table th')].map((one) => one.innerText)"
        )
        place = next(i for i, one in enumerate(heads) if one.startswith("energy"))
        assert first_column(browser, place)[0] == f"{least * 1e3:.4g} mJ"
        assert "energy of one run" in browser.find_element("id", "winner-panel").text
        browser.get("about:blank")


def test_a_proxy_may_serve_the_page_in_a_folder_of_its_own(browser, tmp_path):
    path = log(tmp_path / "grow.log", run(10))
    with served(path) as (link, _), proxied(link, "tune") as there:
        opened(browser, there)
        count_is(browser, 10)
        with path.open("a") as file:
            file.write(text(run(25)[10:]))
        count_is(browser, 25)
        click(browser, "#export-json")
        found = browser.downloads / "trials.json"
        end = time.monotonic() + WAIT_S
        while not found.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert len(json.loads(found.read_text())) == 25
        found.unlink()
        asked = browser.execute_script(
            "return performance.getEntriesByType('resource').map((one) => one.name)"
        )
        assert all(one.startswith(there) for one in asked if not one.startswith("data:"))
        browser.get("about:blank")


def test_a_report_shows_the_same_front_of_time_and_energy_whatever_the_filters(browser, tmp_path):
    path = log(tmp_path / "energy.log", run(120, energy=True))
    report = tmp_path / "report.html"
    report.write_text(one_file(snapshot([path]), "a report"))
    told = []
    with served(path) as (link, _):
        for where in (link, report.as_uri()):
            opened(browser, where)
            whole = browser.find_element("id", "energy-note").text
            click(browser, "[data-key='tile [-1,8]']")
            until(browser, "document.getElementById('energy-note').innerText !== arguments[0]",
                  whole)  # fmt: skip
            told.append((whole, browser.find_element("id", "energy-note").text))
        browser.get("about:blank")
    assert told[0] == told[1]


# How many pixels of a chart's canvas are drawn.
INK = """
const canvas = document.querySelector(`#${arguments[0]} canvas`);
if (!canvas) return 0;
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
return pixels.filter((one, i) => i % 4 === 3 && one > 0).length;
"""


def test_all_that_is_sent_once_is_small():
    assert sum(len(text.encode()) for text in assets().values()) < 300_000


def test_a_run_is_followed_through_restarts_rotation_and_torn_lines(browser, tmp_path):
    path = tmp_path / "grow.log"
    rows = run(60)
    with served(path) as (link, _):
        browser.get(link)
        nothing = (
            "document.getElementById('empty').innerText.startsWith('Nothing was measured yet')"
        )
        until(browser, nothing)
        path.write_text(text(rows[:10]))
        count_is(browser, 10)
        with path.open("a") as file:
            file.write(text(rows[10:20]) + text([rows[20]])[:40])
        count_is(browser, 20)
        with path.open("a") as file:
            file.write(text([rows[20]])[40:])
        count_is(browser, 21)
        os.rename(path, tmp_path / "grow.log.1")
        path.write_text(text(rows[:5]))
        count_is(browser, 5)
        port = link.rstrip("/").rpartition(":")[2]
    until(browser, "document.getElementById('status').className.includes('lost')")
    browser.expected = ("WebSocket", "ERR_CONNECTION_REFUSED")
    with path.open("a") as file:
        file.write(text(rows[5:40]))
    with served(path, port=int(port)):
        count_is(browser, 40)
        until(browser, "document.getElementById('status').className.includes('live')")
        browser.get("about:blank")


def first_column(browser, column):
    rows = "[...document.querySelectorAll('#trials-table tbody tr')]"
    return browser.execute_script(f"return {rows}.map((r) => r.children[{column}].innerText)")


def test_filters_sorting_and_export_agree(browser, site):
    opened(browser, site)
    click(browser, "[data-key='sort seconds']")
    until(browser, "document.querySelector('[aria-sort=ascending]')?.innerText.includes('time')")
    times = first_column(browser, 2)
    assert times[0] == tile(browser, "best time")
    digits = [sum(each.isdigit() for each in time) for time in times]
    assert digits == [4] * len(times), times
    assert "failed" in browser.find_element("id", "best-legend").text
    click(browser, "[data-key='Outcome 0']")  # only what failed
    until(browser, "document.querySelectorAll('#trials-table td.bad').length > 5")
    rows = run(300) + run(120, seed=4)
    count_is(browser, sum(one["result"][1] > 0 for one in rows))
    click(browser, "[data-key='reset']")
    count_is(browser, 420)
    click(browser, "[data-key='unroll 0']")
    kept = [one for one in rows if one["config"]["entity"][1][2] != 0]
    count_is(browser, len(kept))
    for kind in ("csv", "json"):
        click(browser, f"#export-{kind}")
        path = browser.downloads / f"trials.{kind}"
        end = time.monotonic() + WAIT_S
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.05)
        told = path.read_text()
        found = list(csv.DictReader(io.StringIO(told))) if kind == "csv" else json.loads(told)
        path.unlink()
        assert len(found) == len(kept)
        wanted = sorted(str(one["config"]["index"]) for one in kept)
        assert sorted(str(one["key"]) for one in found) == wanted


def test_the_best_so_far_shows_the_time_of_the_race_that_the_numbers_show(browser, tmp_path):
    rows = [row(0, 1e-5), row(1, 8.6e-6), row(2, 9e-6)]
    winner = {**rows[2], "result": [[5e-6], 0, 1.5, 1.7e9 + 9]}
    with served(log(tmp_path / "raced.log", rows, race(winner, rows[:2]))) as (link, _):
        opened(browser, link)
        assert tile(browser, "best time") == "5 µs"
        assert "trial 3, in the final race" in browser.find_element("id", "tiles").text
        assert "winner of the final race" in browser.find_element("id", "best-legend").text
        label = browser.find_element("id", "best-chart").get_attribute("aria-label")
        assert "best 5 µs in the final race" in label
        click(browser, "[data-key='unroll 2']")  # leaves the winner out
        count_is(browser, 2)
        until(browser, "!document.getElementById('best-legend').innerText.includes('final race')")
        assert "left out by the filters" in browser.find_element("id", "tiles").text
        browser.get("about:blank")


def test_a_legend_has_only_what_is_drawn(browser, tmp_path):
    good = [one for one in run(40) if not one["result"][1]]
    with served(log(tmp_path / "good.log", good)) as (link, _):
        opened(browser, link)
        assert browser.find_element("id", "best-legend").text == "good.log"
        browser.get("about:blank")


def test_a_knob_of_many_values_loses_none_to_its_filter(browser, tmp_path):
    path = log(
        tmp_path / "many.log", [row(i, 1e-3 - 1e-6 * i, knobs={"k": i}) for i in range(100)]
    )
    report = tmp_path / "many.html"
    report.write_text(one_file(snapshot([path]), "many"))
    with served(path) as (link, _):
        for where in (link, report.as_uri()):
            opened(browser, where)
            assert "trial 100" in browser.find_element("id", "tiles").text
            click(browser, "[data-key='k 3']")
            count_is(browser, 99)
            assert "k (99 of 100)" in browser.find_element("id", "filters-panel").text
            click(browser, "[data-key='k 3']")
            count_is(browser, 100)
        browser.get("about:blank")


SCRIPT = """
import sys
from autotune import tuner
from tests.tuner.doubles import loop_task, option
seen = []
def pace(tuner, inputs, results):
    before = len(seen) // 100
    seen.extend(results)
    if len(seen) // 100 > before:
        sys.stdin.readline()
result = tuner.RandomTuner(loop_task(600)).tune(500, option(), callbacks=[pace], dashboard=True)
print("tuned", result.trials, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def tuning():
    """Yield a process that tunes with a page, a line written to it for each hundred; its link."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, cwd=root, encoding="utf-8", **pipes) as process:
        yield process, process.stderr.readline().split()[-1]
        process.kill()


def connections(link):
    """Return the sockets of those who are connected to the page."""
    port = f":{int(link.rstrip('/').rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {f"socket:[{one[9]}]" for one in rows if one[2].endswith(port) and one[3] == "01"}


def sockets(session):
    """Return the sockets of the processes of a session."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if os.getsid(int(folder.name)) == session:
                found |= {os.readlink(one) for one in (folder / "fd").iterdir()}
    return found


def more_than(browser, count):
    until(browser, "parseInt(document.getElementById('filters-count').innerText) > arguments[0]",
          count)  # fmt: skip


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def kill_another(link, folder):
    """Look at the page with another browser, and kill that."""
    flags = [*FLAGS, f"--user-data-dir={folder}", "--remote-debugging-port=0"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    other = subprocess.Popen([CHROMIUM, *flags, link], start_new_session=True, **silent)
    looked, end = False, time.monotonic() + WAIT_S
    while not looked and time.monotonic() < end:
        time.sleep(0.05)
        looked = bool(connections(link) & sockets(other.pid))
    os.killpg(other.pid, signal.SIGKILL)
    other.wait()
    assert looked


def test_a_run_is_followed_from_its_first_trials_to_its_winner_and_outlives_a_browser(
    browser, tmp_path
):
    with tuning() as (process, link):
        browser.expected = ("WebSocket", "ERR_CONNECTION_REFUSED")
        opened(browser, link)
        more_than(browser, 99)
        go_on(process)
        more_than(browser, 199)
        kill_another(link, tmp_path)
        for count in (299, 399):
            go_on(process)
            more_than(browser, count)
        process.stdin.write("\n\n")
        process.stdin.flush()
        assert process.stdout.readline() == "tuned 500\n"
        count_is(browser, 500)
        until(browser, "document.querySelector('#winner-panel .winner')")
        assert tile(browser, "best time") != "–"
        process.stdin.close()
        process.wait(WAIT_S)
        until(browser, "document.getElementById('status').className.includes('lost')")
        assert tile(browser, "trials") == "500"  # what was seen stays


def test_a_report_is_the_same_page_without_a_server(browser, two_logs, tmp_path):
    report = tmp_path / "report.html"
    report.write_text(one_file(snapshot(two_logs), "two runs"))
    opened(browser, report.as_uri())
    assert tile(browser, "trials") == "420"
    assert browser.execute_script(INK, "best-chart") > 200
    click(browser, "[data-key='Outcome 4']")
    failed = sum(one["result"][1] > 0 for one in run(300) + run(120, seed=4))
    count_is(browser, 420 - failed)
    click(browser, "[data-key='sort seconds']")
    until(browser, "document.querySelector('[aria-sort=ascending]')")
    assert first_column(browser, 2)[0] == tile(browser, "best time")
    assert "failed" not in browser.find_element("id", "best-legend").text  # filtered out
    assert browser.execute_script("return performance.getEntriesByType('resource')") == []
