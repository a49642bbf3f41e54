"""The blocks of a page of the book, and how they are run one after the other.

A fenced block's first line says what it is::

    ```python             runs; all such blocks of a page are one program, in a folder of its own
    ```python fragment    is shown only
    ```python gemm.py     is saved under that name, so are ```cuda gemm.cu, ```c x.c, ```cpp x.cpp
    ```console            commands behind "$ ", and what they printed
    ```text output        what the Python block before it printed

What a page shows as printed was printed: ``python docs/record.py`` runs it, and writes that there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_BLOCK = re.compile(r"^```(\w*)[ ]?([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[\w-]+\.(py|cu|c|h|cpp)")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, what stands behind it, its text and where that begins."""

    language: str
    mark: str
    text: str
    start: int

    @property
    def runs(self) -> bool:
        """Whether it is Python to be run."""
        return (self.language, self.mark) == ("python", "")

    @property
    def file(self) -> bool:
        """Whether it is to be saved under the name behind the language."""
        return bool(_FILE.fullmatch(self.mark))

    @property
    def commands(self) -> list[str]:
        """The commands of a console block."""
        lines = self.text.splitlines() if self.language == "console" else []
        return [line[2:] for line in lines if line.startswith("$ ")]

    @property
    def recorded(self) -> bool:
        """Whether what it shows was printed by a run."""
        return self.language == "console" or (self.language, self.mark) == ("text", "output")


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [Block(*m.group(1, 2, 3), m.start(3)) for m in _BLOCK.finditer(text)]


def run(
    page: list[Block],
    folder: Path,
    python: Callable[[str], str],
    command: Callable[[str], str],
) -> Iterator[Block]:
    """Run the blocks of a page in order, and give those that were printed, with their new text.

    Args:
        page: its blocks.
        folder: where files are saved, and where `python` and `command` run.
        python: runs a piece of the page's program, and returns what it printed.
        command: runs a command, and returns what it printed.
    """
    printed = ""
    for block in page:
        if block.runs:
            printed = python(block.text)
        elif block.file:
            (folder / block.mark).write_text(block.text, "utf-8")
        elif block.language == "console":
            said = [f"$ {each}\n{command(each)}" for each in block.commands]
            yield replace(block, text="".join(said))
        elif block.recorded:
            yield replace(block, text=printed)


def written(text: str, new: list[Block]) -> str:
    """Return a page with blocks in place of those that began where they begin."""
    old = {block.start: block for block in blocks(text)}
    for block in sorted(new, key=lambda one: -one.start):
        end = block.start + len(old[block.start].text)
        text = text[: block.start] + block.text + text[end:]
    return text
