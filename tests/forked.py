"""Scripts in processes of their own that are forked from one that has imported autotune already.

Importing takes longer than most of these scripts run, and they are started and killed many times.
"""

import contextlib
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import textwrap
from multiprocessing import forkserver
from pathlib import Path

ROOT = Path(__file__).parent.parent
_CONTEXT = multiprocessing.get_context("forkserver")
_IMPORTED = ["autotune.task", "autotune.tuner.callback", "autotune.measure.run.one_trial"]


@contextlib.contextmanager
def forkserver_with(modules=()):
    """Starts the fork server on first use, with what it imports, and stops it at the end."""
    forkserver._forkserver._stop()
    multiprocessing.util.get_temp_dir()  # made once, and not where a test wants its own files
    _CONTEXT.set_forkserver_preload([*_IMPORTED, *modules])
    yield
    forkserver._forkserver._stop()


class Script:
    """A script that runs; use it in ``with``, which waits for its end.

    Args:
        text: Python, indented as one likes; ``sys.argv[1:]`` are the arguments.
        arguments: of the script.
    """

    def __init__(self, text, *arguments):
        ours, theirs = _CONTEXT.Pipe(duplex=False)
        what = (theirs, textwrap.dedent(text), list(map(str, arguments)), dict(os.environ))
        self._process = _CONTEXT.Process(target=_run, args=what)
        self._process.start()
        theirs.close()
        self.stdout = os.fdopen(os.dup(ours.fileno()), encoding="utf-8")
        ours.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.join()
        self.stdout.close()

    def poll(self):
        """Returns the exit status, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout):
        """Returns the exit status."""
        self._process.join(timeout)
        return self._process.exitcode

    def terminate(self):
        """Sends SIGTERM to it alone."""
        os.kill(self._process.pid, signal.SIGTERM)

    def hang_up(self):
        """Sends SIGHUP to it alone, as a terminal that is closed does."""
        os.kill(self._process.pid, signal.SIGHUP)

    def kill(self):
        """Sends SIGKILL to it alone, unless it has ended."""
        self._process.kill()


def _run(output, text, arguments, environment):
    """Runs a script as the main program of this process."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd, target in ((nowhere, 0), (output.fileno(), 1), (nowhere, 2)):
        os.dup2(fd, target)
    output.close()
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as we live
    sys.argv = ["-c", *arguments]
    names = {"__name__": "__main__"}
    exec(compile(text, "<script>", "exec"), names)
    sys.stdout.flush()
