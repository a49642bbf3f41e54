"""What the tests of the page share."""

from pathlib import Path

import pytest

from tests.dashboard.browsing import CHROMIUM, DRIVER, FLAGS
from tests.dashboard.rows import log, race, run
from tests.dashboard.serving import served


@pytest.fixture
def data():
    """The folder of recorded logs."""
    return Path(__file__).parent.parent / "data"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all tests; what it downloads lies in ``browser.downloads``."""
    webdriver = pytest.importorskip("selenium.webdriver")
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


@pytest.fixture
def nothing_wrong(browser):
    """No test leaves an error in the console, but what it says it expects."""
    browser.get_log("browser")
    browser.expected = ()
    yield
    browser.get("about:blank")
    severe = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert [one for one in severe if not any(word in one for word in browser.expected)] == []


@pytest.fixture(scope="module")
def two_logs(tmp_path_factory):
    """Two logs of one task; the first has a race."""
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
