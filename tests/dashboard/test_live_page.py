"""`tune(..., dashboard=True)`: a page of the run, served by a process that is no part of it."""

import gc
import signal
import socket
import subprocess
import sys
import time
import urllib.error
from pathlib import Path
from urllib.request import urlopen

import pytest

from autotune import tuner as tuners
from autotune.errors import TunerError
from autotune.measure import Session
from autotune.measure.run.host_gate import HostGate
from autotune.tuner import callback
from autotune.tuner.display import page as page_module
from autotune.tuner.display.page import LivePage
from tests.dashboard.serving import Socket, asked
from tests.tuner.doubles import loop_task, option

WAIT_S = 30


def until(condition, what):
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


def total_of(link):
    reader = Socket(link)
    reader.send({"workload": 0})
    found = reader.view()
    reader.close()
    return found and found["total"]


@pytest.fixture(autouse=True)
def no_page_stays():
    """End the pages of a test: their pipes would stay open until the program ends."""
    yield
    while page_module._PAGES:
        page_module._PAGES.popitem()[1].close()


@pytest.mark.parametrize("logged", [True, False])
def test_the_page_of_a_run_shows_its_trials(tmp_path, logged):
    page = LivePage(tmp_path / "a.log" if logged else None)
    log = [callback.log_to_file(tmp_path / "a.log")] if logged else []
    tuners.RandomTuner(loop_task()).tune(6, option(), callbacks=[*log, page], finalists=0)
    link = until(lambda: page.link, "there is no link")
    assert asked(link)[0] == 200
    until(lambda: total_of(link) == 6, "the trials are not there")


def test_what_a_run_wrote_last_stays_for_the_page_to_read():
    page = LivePage()
    tuners.RandomTuner(loop_task()).tune(6, option(), callbacks=[page], finalists=0)
    log = page._log
    del page
    gc.collect()
    assert log.read_text().count('"result"') == 6


def test_a_page_that_cannot_be_served_stops_no_run(tmp_path, caplog):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        page = LivePage(tmp_path / "a.log", taken.getsockname()[1])
        taken.listen()
        result = tuners.RandomTuner(loop_task()).tune(3, option(), callbacks=[page])
        assert result.trials == 3
        until(lambda: "there is no live page" in caplog.text, "nobody said so")
    assert page.link == ""


def test_what_is_no_port_is_refused():
    for wrong in (-1, "8765", 1.5, None, 70_000):
        with pytest.raises(TunerError, match="dashboard"):
            tuners.RandomTuner(loop_task()).tune(3, option(), dashboard=wrong)


SCRIPT = """
import sys, time
from autotune import tuner
from tests.tuner.doubles import loop_task, option
tuner.RandomTuner(loop_task()).tune(4, option(), dashboard=True)
print("tuned", flush=True)
time.sleep(60)
"""


def test_the_page_ends_with_the_process_that_tunes_even_if_it_is_killed():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", SCRIPT]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "encoding": "utf-8"}
    with subprocess.Popen(command, cwd=root, **pipes) as process:
        link = process.stderr.readline().split()[-1]
        assert link.startswith("http://127.0.0.1:")
        with urlopen(link, timeout=WAIT_S) as answer:
            assert b"autotune" in answer.read()
        process.send_signal(signal.SIGKILL)
    until(lambda: gone(link), "the page is still there")


def gone(link):
    try:
        urlopen(link, timeout=1).close()
    except TimeoutError:  # it stands still and was not told of the end yet
        return False
    except (urllib.error.URLError, ConnectionError):
        return True
    return False


class Nobody:
    """Builders that are not there."""

    def pause(self):
        """Do nothing."""

    resume = pause


def state_of(pid):
    """Return the letter of a process's state, ``T`` where it was stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_page_stands_still_while_a_kernel_is_timed_on_this_host(tmp_path):
    page, gate = LivePage(tmp_path / "a.log"), HostGate(Nobody())
    page.tuning(None)
    until(lambda: page.link, "there is no link")
    for _ in range(2):  # a second run in the same session
        gate.keep_still(page.bystander)
    with gate.quiet():
        until(lambda: state_of(page.pid) == "T", "the page goes on")
    until(lambda: state_of(page.pid) != "T", "the page still stands")
    assert asked(page.link)[0] == 200
    page.close()
    with gate.quiet():  # an ended one keeps nobody from timing
        assert page.pid is None


def test_a_run_hands_its_bystanders_to_the_session(monkeypatch, tmp_path):
    still = []
    monkeypatch.setattr(Session, "keep_still", lambda self, one: still.append(one))
    page = LivePage(tmp_path / "a.log")
    tuners.RandomTuner(loop_task()).tune(3, option(), callbacks=[page], finalists=0)
    assert still == [page.bystander]
    page.close()


STOPPED = """
import sys, time
from pathlib import Path
from autotune.tuner.display.page import LivePage
page = LivePage(Path(sys.argv[1]))
page.tuning(None)
while not page.link:
    time.sleep(0.01)
page.bystander.pause()
print(page.link, flush=True)
time.sleep(60)
"""


def test_a_page_that_stands_still_ends_with_a_process_that_is_killed(tmp_path):
    command = [sys.executable, "-c", STOPPED, str(tmp_path / "a.log")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "encoding": "utf-8"}
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], **pipes) as process:
        link = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    until(lambda: gone(link), "the page is still there")
