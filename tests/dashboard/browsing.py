"""What tests that look at the page in a browser do with it."""

import shutil
import time

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="there is no chromium"),
    pytest.mark.usefixtures("nothing_wrong"),
]
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--window-size=1280,900", "--disable-background-networking")  # fmt: skip
WAIT_S = 30


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
