"""The page in a real browser: with a keyboard, on a phone, checked for access, under attack."""

from importlib.resources import files

import pytest

from autotune.dashboard import one_file, snapshot
from tests.dashboard.browsing import MARKS, opened, until
from tests.dashboard.rows import log, row
from tests.dashboard.serving import served

pytestmark = MARKS


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
    chains = pytest.importorskip("selenium.webdriver").ActionChains
    opened(browser, site)

    def press(key):
        """Presses a key wherever the focus is: no element is held that the page may draw again."""
        chains(browser).send_keys(key).perform()

    def focused():
        active = "const a = document.activeElement;"
        return browser.execute_script(f"{active} return a.id || a.dataset.key || a.className")

    press(keys.TAB)
    assert focused() == "skip"
    reached = set()
    for _ in range(60):
        reached.add(focused())
        press(keys.TAB)
    assert {"theme", "Outcome 0", "from µs"} <= reached
    browser.execute_script("document.querySelector(`[data-key='sort seconds']`).focus()")
    press(keys.ENTER)
    until(browser, "document.querySelector('[aria-sort=ascending]')?.innerText.includes('time')")
    assert focused() == "sort seconds"


def test_a_phone_shows_it_without_scrolling_sideways(browser, site):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        opened(browser, site)
        wide = "document.documentElement.scrollWidth <= 390"
        until(browser, wide)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
