"""The page in a real browser: headless Chromium, driven by Selenium."""

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest

from autotune.dashboard import one_file, snapshot
from autotune.dashboard.page import assets
from tests.dashboard.rows import log, race, row, run, text
from tests.dashboard.serving import served

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="there is no chromium"),
]
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--window-size=1280,900", "--disable-background-networking")  # fmt: skip
WAIT_S = 30


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for all tests; what it downloads lies in ``browser.downloads``."""
    downloads = tmp_path_factory.mktemp("downloads")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    prefs = {
        "download.default_directory": str(downloads),
        "profile.default_content_setting_values.automatic_downloads": 1,
    }
    options.add_experimental_option("prefs", prefs)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.downloads = downloads
    yield driver
    driver.quit()


@pytest.fixture(autouse=True)
def nothing_wrong(browser):
    """No test leaves an error in the console, but what it says it expects."""
    browser.get_log("browser")
    browser.expected = ()
    yield
    browser.get("about:blank")
    severe = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert [one for one in severe if not any(word in one for word in browser.expected)] == []


def until(browser, script, *arguments):
    """Wait until a script gives something true, and return that."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = browser.execute_script(f"return {script}", *arguments)
        if found:
            return found
        time.sleep(0.05)
    body = browser.execute_script("return document.body.innerText.slice(0, 2000)")
    raise AssertionError(f"{script} never came true; the page shows:\n{body}")


def opened(browser, link):
    browser.get(link)
    until(browser, "document.documentElement.dataset.drawn")


def tile(browser, name):
    script = (
        "[...document.querySelectorAll('.tile')].find((t) => t.innerText.includes(arguments[0]))"
        "?.querySelector('strong').innerText"
    )
    return browser.execute_script(f"return {script}", name)


def count_is(browser, count):
    until(browser, "document.getElementById('filters-count').innerText.startsWith(arguments[0])",
          f"{count:,} of")  # fmt: skip


def click(browser, selector):
    until(browser, "document.querySelector(arguments[0])", selector)
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


@pytest.fixture(scope="module")
def two_logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    rows = run(300)
    good = sorted((r for r in rows if not r["result"][1]), key=lambda r: r["result"][0][0])
    return [
        log(folder / "first.log", rows, race(good[0], [good[1], good[-1]])),
        log(folder / "second.log", run(120, seed=4)),
    ]


@pytest.fixture(scope="module")
def site(two_logs):
    """The link to a page of two logs."""
    with served(*two_logs) as (link, _):
        yield link


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
        until(browser, "!document.getElementById('empty').hidden")
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
    assert first_column(browser, 2)[0] == tile(browser, "best time")
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


def readers(link):
    """Return how many connections to the page are established."""
    port = f":{int(link.rstrip('/').rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(one[2].endswith(port) and one[3] == "01" for one in rows)


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
    ours, end = readers(link), time.monotonic() + WAIT_S
    other = subprocess.Popen([CHROMIUM, *flags, link], start_new_session=True, **silent)
    while readers(link) <= ours and time.monotonic() < end:
        time.sleep(0.05)
    looked = readers(link) > ours
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


HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'`${1}"


def hostile_log(folder):
    words = {"knobs": {f"knob{HOSTILE}": HOSTILE, "size": [-1, 2]}, "task": f"task{HOSTILE}"}
    more = {"resources": {HOSTILE: 1}, "clocks": {HOSTILE: HOSTILE}, "verify": HOSTILE,
            "mine": HOSTILE, "kernel_hash": HOSTILE[:60]}  # fmt: skip
    rows = [row(i, 1e-3 / (i + 1), **words, **more) for i in range(3)]
    for one in rows:
        one["input"][2].append(HOSTILE)
        one["config"]["entity"][0][2] = HOSTILE + str(one["config"]["index"])
    rows.append(row(9, error=4, message=HOSTILE, **words))
    path = folder / f"{HOSTILE.replace('/', '')}.log"
    return log(path, rows, HOSTILE + "\n" + '{"input": "' + HOSTILE + '"}\n')


def test_script_in_every_field_of_a_log_stays_text(browser, tmp_path):
    path = hostile_log(tmp_path)
    with served(path) as (link, _):
        opened(browser, link)
        assert_harmless(browser)
        browser.get("about:blank")
    report = tmp_path / "report.html"
    report.write_text(one_file(snapshot([path]), HOSTILE))
    opened(browser, report.as_uri())
    assert_harmless(browser)


def assert_harmless(browser):
    browser.execute_script(
        "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
    )
    shown = browser.find_element("tag name", "body").text
    assert shown.count("window.hacked=1") > 8
    assert browser.execute_script("return window.hacked") is None
    assert not browser.find_elements("tag name", "img")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_that_a_checker_of_accessibility_calls_serious(browser, site, theme):
    axe = files(pytest.importorskip("axe_core_python")) / "axe.min.js"
    opened(browser, site)
    browser.execute_script(
        "document.documentElement.dataset.theme === arguments[0]"
        " || document.getElementById('theme').click()", theme)  # fmt: skip
    until(browser, "document.querySelector('#importance-chart .bar')")
    browser.execute_script(
        "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
    )
    # Through the protocol: the policy of the page lets no script in.
    browser.execute_cdp_cmd("Runtime.evaluate", {"expression": axe.read_text("utf-8")})
    browser.set_script_timeout(90)
    found = browser.execute_async_script(
        "const done = arguments[0], rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'];"
        "axe.run({ runOnly: rules, resultTypes: ['violations'] }).then((r) => done(r.violations))"
    )
    serious = [(v["id"], v["nodes"][0]["html"][:200]) for v in found
               if v["impact"] in ("serious", "critical")]  # fmt: skip
    assert serious == []


def test_the_keyboard_reaches_what_the_mouse_does(browser, site):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    opened(browser, site)
    body = browser.find_element("tag name", "body")
    body.send_keys(keys.TAB)
    assert browser.switch_to.active_element.get_attribute("class") == "skip"
    reached = set()
    for _ in range(60):
        active = browser.switch_to.active_element
        reached.add(active.get_attribute("id") or active.get_attribute("data-key"))
        active.send_keys(keys.TAB)
    assert {"theme", "Outcome 0", "from µs"} <= reached
    head = browser.find_element("css selector", "[data-key='sort seconds']")
    head.send_keys(keys.ENTER)
    until(browser, "document.querySelector('[aria-sort=ascending]')?.innerText.includes('time')")
    assert browser.switch_to.active_element.get_attribute("data-key") == "sort seconds"


def test_a_phone_shows_it_without_scrolling_sideways(browser, site):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        opened(browser, site)
        wide = "document.documentElement.scrollWidth <= 390"
        until(browser, wide)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


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
    assert browser.execute_script("return performance.getEntriesByType('resource')") == []
