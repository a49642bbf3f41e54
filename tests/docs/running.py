"""Runs code, scripts and commands in processes that have everything imported already.

Starting Python and importing what a program of the book needs takes longer than most of these
programs; so they run in children of a fork server, which did that once.
"""

import contextlib
import io
import multiprocessing
import os
import re
import runpy
import shlex
import subprocess
import sys
import traceback
from multiprocessing import forkserver
from pathlib import Path

from tests.prestarted import WORKERS, forks_of_this_process

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 500
_CONTEXT = multiprocessing.get_context("forkserver")
_IMPORTED = [
    *WORKERS,
    "autotune.templates", "autotune.tuner.xgboost_tuner", "autotune.tuner.auto_tuner", "xgboost",
    "autotune.auto_scheduler", "autotune.driver", "autotune.cli.main", "autotune.cli.log",
    "autotune.cli.verify", "autotune.tvm.relay", "autotune.tvm.autotvm", "autotune.record",
    "autotune.tuner.callback", "autotune.measure", "autotune.emulator", "autotune.runtime",
]  # fmt: skip


@contextlib.contextmanager
def preloaded():
    """Starts the fork server on first use, and stops it at the end."""
    _CONTEXT.set_forkserver_preload(_IMPORTED)
    yield
    forkserver._forkserver._stop()


class Interpreter:
    """A process that runs pieces of one program, in a folder."""

    def __init__(self, folder, path=()):
        self._ours, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(theirs, str(folder), list(path)))
        self._process.start()
        theirs.close()

    def run(self, kind, what):
        """Runs code, a script or a command; returns what it printed, and raises if it failed."""
        self._ours.send((kind, what))
        assert self._ours.poll(TIMEOUT_S), f"no end after {TIMEOUT_S} s: {what}"
        status, printed = self._ours.recv()
        # Whether verification finds a kernel slower is up to whatever else this machine does just
        # now; its status says what it found.
        slower = what[:1] == ["verify"] and re.search("^slower .* answer checked", printed, re.M)
        expected = (1,) if slower else (0, None)
        assert status in expected, f"{what}\nended with {status}:\n{printed}"
        return printed

    def python(self, code):
        """Runs a piece of the program; returns its standard output."""
        return self.run("code", code)

    def close(self):
        """Ends the process."""
        self._ours.close()
        self._process.join(10)
        self._process.kill()
        self._process.join()


def python(code, folder):
    """Runs a piece of Python by itself; returns its standard output."""
    with contextlib.closing(Interpreter(folder)) as own:
        return own.python(code)


def command(line, folder, path=()):
    """Runs a command as a shell would; returns what it prints to either stream."""
    words = shlex.split(line)
    if words[0] in ("python", "autotune"):
        with contextlib.closing(Interpreter(folder, path)) as own:
            return own.run(words[0], words[1:])
    done = subprocess.run(
        line, shell=True, cwd=folder, text=True, timeout=TIMEOUT_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def _serve(requests, folder, path):
    """Does what is asked for until nobody is there to ask."""
    os.chdir(folder)
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    sys.path[:0] = path
    names = {"__name__": "__main__"}
    with contextlib.suppress(EOFError), forks_of_this_process():
        while True:
            kind, what = requests.recv()
            requests.send(_captured(kind, what, names))


def _captured(kind, what, names):
    """Returns the status and what was printed: of code its standard output if all went well."""
    out, err = io.StringIO(), io.StringIO()
    both = out if kind != "code" else err
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(both):
        try:
            _do(kind, what, names)
            status = 0
        except SystemExit as ended:
            status = ended.code
        except BaseException:
            traceback.print_exc()
            status = 1
    failed = status not in (0, None) and both is err
    return status, out.getvalue() + (err.getvalue() if failed else "")


def _do(kind, what, names):
    if kind == "code":
        exec(compile(what, "<page>", "exec"), names)
    elif kind == "python":
        sys.argv = what
        sys.path.insert(0, str(Path(what[0]).resolve().parent))
        runpy.run_path(what[0], run_name="__main__")
    else:
        from autotune.cli.main import main

        main(what, prog_name="autotune")
