"""Runs the pages of the book and writes what was printed into them.

    python docs/record.py                 # all pages that show what something printed
    python docs/record.py start spaces    # these
    python docs/record.py --busy          # also while other processes use the machine

Times are shown, so this wants an idle machine: where other processes use more than a tenth of it,
before or while a page runs, that page stays as it was, and the status is 1. Each page runs in an
empty folder, without colours, 100 columns wide. `recorded.json` says of each
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
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from docs.pages import Block, blocks, run, written  # noqa: E402

RECORDED = DOCS / "recorded.json"
_NOTE = re.compile(r"\n<!-- recorded -->\n.*?<!-- -->\n", re.DOTALL)
_COMMAND_S = 600
# Part of the machine that others may use, and seconds for which that is looked at beforehand.
_MOST_OTHERS, _LOOK_S = 0.1, 3.0


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


class Others:
    """What processes other than this one and its children use of the machine, from now on."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy_s(), _own_s()

    def cores(self) -> float:
        """Return how many cores they kept busy since then."""
        others = _busy_s() - self._busy - (_own_s() - self._own)
        return max(0.0, others / max(1e-9, time.monotonic() - self._began))

    def complaint(self) -> str:
        """Return what is wrong where they used too much; empty where they did not."""
        cores, whole = self.cores(), os.cpu_count() or 1
        if cores <= _MOST_OTHERS * whole:
            return ""
        return f"other processes used {cores:.1f} of {whole} cores"


def _busy_s() -> float:
    """Return the seconds that all cores were busy since the system started; 0 where unknown."""
    with contextlib.suppress(OSError):
        user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split()[1:9])
        return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _own_s() -> float:
    """Return the CPU seconds of this process and its children, whether they ended or not."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(one.ru_utime + one.ru_stime for one in used) + sum(_descendants()) / ticks


def _descendants() -> list[int]:
    """Return the CPU time, in ticks, of each process below this one, with its ended children."""
    rows: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            rows[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    found = {os.getpid()}
    while more := {pid for pid, (parent, _) in rows.items() if parent in found} - found:
        found |= more
    return [rows[pid][1] for pid in found - {os.getpid()} if pid in rows]


def environment(folder: Path) -> dict[str, str]:
    """Return the variables under which pages are run."""
    here = str(Path(sys.executable).parent)
    return {
        **os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(DOCS.parent),
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PWD": str(folder),
    }  # fmt: skip


def tidied(text: str, folder: Path) -> str:
    """Return printed text without names of this machine's folders, or of temporary files."""
    for path, word in ((folder, ""), (DOCS.parent, "autotune"), (Path.home(), "~")):
        text = text.replace(f"{path}/", f"{word}/" if word else "").replace(str(path), word or ".")
    text = re.sub(r"(autotune_errors_)\w+", r"\1x1y2z3ab", text)
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


def record(name: str, busy: bool) -> None:
    """Run one page in this process and write what was printed into it.

    Args:
        name: of the page.
        busy: whether it counts where other processes used the machine.
    """
    path, others = shown()[name], Others()
    text = _NOTE.sub("", path.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        os.chdir(folder)
        program = Program(folder)
        new = list(run(blocks(text), folder, program.python, program.command))
        os.chdir(DOCS)
    if not busy and (why := others.complaint()):
        raise SystemExit(f"{name}: {why} meanwhile; it stays as it was")
    day, where = datetime.datetime.now(datetime.timezone.utc).date().isoformat(), machine()
    note = f"What is shown on this page was printed on {day} by {where}."
    text = f"{written(text, new).rstrip()}\n\n<!-- recorded -->\n*{note}*\n<!-- -->\n"
    path.write_text(text, "utf-8")
    known = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    known[name] = {"date": day, "machine": where, "digest": digest(blocks(text))}
    RECORDED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


def main(arguments: list[str]) -> int:
    """Record the pages of these names, each in a process of its own; all without a name."""
    busy = "--busy" in arguments
    names = [one for one in arguments if not one.startswith("--")]
    if "--here" in arguments:
        record(names[0], busy)
        return 0
    others = Others()
    time.sleep(_LOOK_S)
    if not busy and (why := others.complaint()):
        raise SystemExit(f"the machine is not idle: {why}; wait, or --busy for text without times")
    failed, began = [], time.monotonic()
    for name in names or shown():
        page_began = time.monotonic()
        flags = ["--here", *(["--busy"] if busy else [])]
        done = subprocess.run([sys.executable, __file__, *flags, name], check=False)
        failed += [name] if done.returncode else []
        print(f"{name}: {time.monotonic() - page_began:.0f} s", flush=True)
    print(f"{time.monotonic() - began:.0f} s" + (f"; again: {' '.join(failed)}" if failed else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
