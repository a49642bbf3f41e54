"""The report in a real browser: headless Chromium opens the file and asks nobody for anything."""

import json
import shutil
import time

import pytest

from autotune.report import html_report
from tests.report.rows import SCRIPT, row

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
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.chrome.service.Service(DRIVER))
    yield driver
    driver.quit()


def opened(browser, path, logs):
    path.write_text(html_report(logs), "utf-8")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    end = time.monotonic() + WAIT_S
    while not browser.execute_script("return document.documentElement.dataset.drawn"):
        assert time.monotonic() < end, browser.execute_script("return document.body.innerText")
        time.sleep(0.05)


def asked(browser):
    """Return the addresses that the page asked for."""
    events = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
    sent = [one["params"] for one in events if one["method"] == "Network.requestWillBeSent"]
    return [one["request"]["url"] for one in sent]


def said(browser):
    return [one["message"] for one in browser.get_log("browser")]


def text_of(browser, place):
    return browser.execute_script(f"return document.getElementById({place!r}).innerText")


def test_a_report_draws_its_charts_without_a_server(browser, log, tmp_path):
    rows = [row("gemm", 1e-3 / (k + 1), k=k, ci95=[1e-4, 1e-3], noise_floor=0.02, samples=5)
            for k in range(40)]  # fmt: skip
    opened(browser, tmp_path / "x.html", [log("a.log", *rows, row("gemm", None, k=41))])
    assert asked(browser) == [(tmp_path / "x.html").as_uri()]
    assert said(browser) == []
    assert "it crashed" in text_of(browser, "failures-panel")
    assert browser.execute_script("return document.querySelectorAll('#best-chart canvas').length")
    assert "41" in text_of(browser, "tiles")
    assert browser.execute_script(
        "return document.querySelector('#trials-table tbody').rows.length"
    )


def test_a_comparison_is_shown_above_the_charts(browser, log, tmp_path):
    old, new = log("a.log", row("gemm", 1e-3)), log("b.log", row("gemm", 2e-3, k=2))
    opened(browser, tmp_path / "x.html", [old, new])
    shown = text_of(browser, "comparison")
    assert "+100.0%" in shown
    assert "slower" in shown
    assert said(browser) == []
    bar = browser.execute_script("return document.querySelector('#comparison svg').clientWidth")
    assert bar > 100


def test_scripts_in_every_field_are_shown_and_never_run(browser, hostile, log, tmp_path):
    opened(browser, tmp_path / "x.html", [hostile, log("b.log", row("gemm", 1e-3))])
    for place in range(6):
        buttons = f"[...document.querySelectorAll('#workloads-table button')][{place}]?.click()"
        browser.execute_script(buttons)
        time.sleep(0.1)
    assert asked(browser) == [(tmp_path / "x.html").as_uri()]
    assert said(browser) == []
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert SCRIPT[:20] in text_of(browser, "comparison")
