"""Runs the pages of the book and writes what was printed into them.

    python docs/record.py                 # all pages that show what something printed
    python docs/record.py start spaces    # these

Each page runs in an empty folder, without colours, 100 columns wide. `recorded.json` says of each
page when and where that was, and a digest of what was printed, by which the tests see that nobody
typed it. The last lines of a page, between two comments, say it to the reader.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from docs.pages import Block, blocks, run, written  # noqa: E402

RECORDED = DOCS / "recorded.json"
_NOTE = re.compile(r"\n<!-- recorded -->\n.*?<!-- -->\n", re.DOTALL)
_COMMAND_S = 600


def shown() -> dict[str, Path]:
    """Return the pages that show what something printed, by name."""
    pages = sorted(DOCS.glob("*.md"))
    return {p.stem: p for p in pages if any(b.recorded for b in blocks(p.read_text("utf-8")))}


def digest(page: list[Block]) -> str:
    """Return what tells whether a page runs and shows what was run and printed then."""
    text = "\0".join(b.text for b in page if b.runs or b.file or b.recorded)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def machine() -> str:
    """Return the words for this machine: cores, and the processor's own name."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        name = found[1] if found else name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores of an {name}"


def environment(folder: Path) -> dict[str, str]:
    """Return the variables under which pages are run."""
    here = str(Path(sys.executable).parent)
    return {
        **os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(DOCS.parent),
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PWD": str(folder),
    }  # fmt: skip


def tidied(text: str, folder: Path) -> str:
    """Return printed text without the names of this machine's folders."""
    for path, word in ((folder, ""), (DOCS.parent, "autotune"), (Path.home(), "~")):
        text = text.replace(f"{path}/", f"{word}/" if word else "").replace(str(path), word or ".")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


class Program:
    """The Python of one page: its names live from block to block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "__main__"}

    def python(self, code: str) -> str:
        """Run a block; returns what it printed to standard output."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), self.names)
        return tidied(printed.getvalue(), self.folder)

    def command(self, line: str) -> str:
        """Run a command in a shell; returns what stood on the screen."""
        done = subprocess.run(
            line, shell=True, cwd=self.folder, env=environment(self.folder), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_COMMAND_S,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            raise SystemExit(f"{line}: status {done.returncode}\n{done.stdout}")
        return tidied(done.stdout, self.folder)


def record(name: str) -> None:
    """Run one page in this process and write what was printed into it."""
    path = shown()[name]
    text = _NOTE.sub("", path.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        os.chdir(folder)
        program = Program(folder)
        new = list(run(blocks(text), folder, program.python, program.command))
        os.chdir(DOCS)
    day, where = datetime.datetime.now(datetime.timezone.utc).date().isoformat(), machine()
    note = f"What is shown on this page was printed on {day} by {where}."
    text = f"{written(text, new).rstrip()}\n\n<!-- recorded -->\n*{note}*\n<!-- -->\n"
    path.write_text(text, "utf-8")
    known = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    known[name] = {"date": day, "machine": where, "digest": digest(blocks(text))}
    RECORDED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


def main(names: list[str]) -> None:
    """Record the pages of these names, each in a process of its own; all without a name."""
    if names[:1] == ["--here"]:
        record(names[1])
        return
    for name in names or shown():
        print(name, flush=True)
        subprocess.run([sys.executable, __file__, "--here", name], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
