"""The live page of a run: ``tune(..., dashboard=True)``.

The page is served by a process of its own, which reads the log like any other reader: the run
never waits for it, even if it fails or has many viewers. Like builders, the process is stopped
while a kernel is timed on this host.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from autotune.driver import kernel_of
from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult, Runner, Session
from autotune.measure.run.host_gate import Pausable
from autotune.record import RACE_NOTE, LogWriter, encode
from autotune.tuner.loop.result import TuneResult
from autotune.tuner.loop.watchers import Callback
from autotune.utils.check import Check
from autotune.utils.escaping import visible
from autotune.utils.scratch import kept_folder
from autotune.workload import Candidate

logger = logging.getLogger("autotvm")

_LAST_PORT = 65535
# Seconds between two looks at who builds and measures on other hosts.
_LOOK_S = 1.0
# One a log, for all runs of this process that are logged there.
_PAGES: dict[Path, _Server] = {}


class LivePage(Callback):
    """A callback that serves a page of the run while this process lives.

    Args:
        log: the log that is shown. By default a temporary one, which this callback writes and
            which is removed at the end of the process.
        port: on this machine; any that is free by default.

    Attributes:
        link: to the page; empty until it is served, or where it could not be.
    """

    at_once = True
    shows_results = False

    def __init__(self, log: Path | None = None, port: int | None = None) -> None:
        self._writer: LogWriter | None = None
        if log is None:
            # Not removed with this callback: the page goes on to read what the run wrote last.
            log = Path(kept_folder("page")) / "run.log"
            self._writer = LogWriter(log)
        self._log, self._port = log.resolve(), port
        self._looking: _Looking | None = None

    @property
    def link(self) -> str:
        """The link to the page."""
        server = _PAGES.get(self._log)
        return server.link if server else ""

    @property
    def pid(self) -> int | None:
        """The number of the process that serves the page; None before it is started."""
        server = _PAGES.get(self._log)
        return server.pid if server else None

    @property
    def bystander(self) -> Pausable | None:
        """The process that serves the page."""
        return _PAGES.get(self._log)

    def tuning(self, tuner: object) -> None:
        """Start the server, without waiting for it, unless an earlier run of this process did."""
        known = _PAGES.get(self._log)
        if known is None or not known.alive:
            _PAGES[self._log] = _Server(self._log, self._port)

    def measuring(self, tuner: object, session: Session) -> None:
        """Show who builds and measures on other hosts, until the run ends."""
        server = _PAGES.get(self._log)
        runner = session.runner
        elsewhere = type(runner).fleet_status is not Runner.fleet_status
        if server is not None and elsewhere and self._looking is None:
            self._looking = _Looking(runner, server)

    def __call__(
        self, tuner: object, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Log trials, unless another callback does."""
        if self._writer is not None:
            pairs = zip(inputs, results, strict=True)
            self._writer.write([encode(inp, result) + "\n" for inp, result in pairs])

    def raced(self, tuner: object, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Log the winner of the race, unless another callback does."""
        if self._writer is not None:
            self._writer.write([RACE_NOTE + encode(measure_input, result) + "\n"])

    def close(self) -> None:
        """End the page; else it ends with this process."""
        server = _PAGES.pop(self._log, None)
        if server is not None:
            server.close()

    def tuned(self, tuner: object, result: TuneResult) -> None:
        """Hand the source of the winner over: the other process has no templates."""
        if self._looking is not None:
            self._looking.end()
            self._looking = None
        server = _PAGES.get(self._log)
        if server is not None and result.best_config is not None:
            text = _source(result, result.best_config)
            target = str(result.task.target)
            server.tell({"target": target, "key": result.best_config.key, "source": text})


class _Looking:
    """Reports regularly to the page which workers on other hosts build and measure.

    In a thread of its own, since the page may be stopped, and workers may be slow to answer.
    """

    def __init__(self, runner: Runner, server: _Server) -> None:
        self._runner, self._server = runner, server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="autotune-page", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while True:
            over = self._over.wait(_LOOK_S)
            try:
                self._server.tell({"workers": self._runner.fleet_status()})
            except Exception as error:  # the run goes on without
                logger.debug("the page is not told who is there: %s", error)
            if over:
                return

    def end(self) -> None:
        """Look once more, and end."""
        self._over.set()
        self._thread.join(_LOOK_S)


def page_of(callbacks: Sequence[object], dashboard: bool | int) -> LivePage:
    """Return the page of a run with these callbacks, of the log that one of them writes.

    Args:
        callbacks: of the run.
        dashboard: True, or a port.

    Raises:
        TunerError: it is something else.
    """
    check = Check(TunerError, "tune")
    if dashboard is not True:
        check.whole("dashboard", dashboard, least=0, most=_LAST_PORT)
    paths = [getattr(one, "path", None) for one in callbacks]
    log = next((path for path in paths if isinstance(path, Path)), None)
    return LivePage(log, None if dashboard is True else dashboard)


def _source(result: TuneResult, best: Candidate) -> str:
    """Return the text of the winner's kernel; empty where it cannot be made any more."""
    target = result.task.target
    if target is None:
        return ""
    try:
        return kernel_of(result.task.realise(best).what, target).source
    except Exception as error:  # the template is the user's, and the run is over
        logger.debug("the source of the winner is not shown: %s", error)
        return ""


class _Server:
    """The process that serves the page of one log.

    It has no part in the run: not even an interrupt from the keyboard reaches it, and it ends when
    its standard input does.
    """

    def __init__(self, log: Path, port: int | None) -> None:
        self.link = ""
        chosen = [] if port is None else ["--port", str(port)]
        command = [sys.executable, "-m", "autotune.dashboard", *chosen, "--", str(log)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            encoding="utf-8",
        )
        self.pid = self._process.pid
        self.close = weakref.finalize(self, _end, self._process)
        threading.Thread(target=self._announce, daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def _announce(self) -> None:
        output: IO[str] | None = self._process.stdout
        assert output is not None
        with suppress(ValueError):
            told = json.loads(output.readline() or "{}")
            self.link = str(told.get("link", ""))
            if self.link:
                # Asked for, so it is shown even where nothing else is.
                print(f"live page: {self.link}", file=sys.stderr, flush=True)
                return
            why = told.get("error", "its process ended")
            logger.warning("there is no live page: %s; tuning goes on", visible(str(why)))

    def pause(self) -> None:
        """Stop the process; only on Linux does it continue if this process is killed meanwhile."""
        if self.link and sys.platform == "linux":
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        if self.link and sys.platform == "linux":
            self._process.send_signal(signal.SIGCONT)

    def tell(self, message: Mapping[str, object]) -> None:
        """Send a message, unless the process has ended."""
        given = self._process.stdin
        assert given is not None
        with suppress(OSError, ValueError):
            given.write(json.dumps(message) + "\n")
            given.flush()


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
    finally:  # also of an interrupt
        if process.stdout is not None:
            process.stdout.close()
