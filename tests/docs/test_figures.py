"""Figures that the README repeats are those of the tables that it links."""

import re

import pytest

from tests.docs.test_links import ROOT

_LINK = re.compile(r"\[[^\]]*\]\((docs/[^)#]+)#([^)]+)\)")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def section(page, anchor):
    """Returns the text under a heading, which its anchor names."""
    for part in re.split(r"^#+ ", page.read_text("utf-8"), flags=re.MULTILINE):
        title = part.partition("\n")[0]
        if re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") == anchor:
            return part
    raise AssertionError(f"{page.name} has no heading #{anchor}")


def rows():
    """Yields the workloads of the README: page and anchor, the name, and the three figures.

    A row whose name is no link is of the section that the one above it links.
    """
    text = (ROOT / "README.md").read_text("utf-8")
    table = text.partition("| workload | library")[2].partition("\n\n")[0]
    link = None
    for line in table.splitlines()[2:]:
        name, *figures = (cell.strip(" *") for cell in line.strip("|").split("|"))
        found = _LINK.match(name)
        link = found.groups() if found else link
        yield pytest.param(*link, figures, id=re.sub(r"\(.*?\)|[\[\]]", "", name)[:60])


def is_rounded(short, full):
    """Returns whether a figure is another one with fewer digits."""
    digits = len(short.partition(".")[2])
    return abs(float(full) - float(short)) <= 0.5 * 10**-digits + 1e-9


def cells(page, anchor):
    """Yields the numbers of each row of the tables of a section, its name left out."""
    for line in section(page, anchor).splitlines():
        yield _NUMBER.findall(line.partition("|")[2].partition("|")[2])


def holds(numbers, figures):
    """Returns whether each figure is one of some numbers."""
    return all(any(is_rounded(one, other) for other in numbers) for one in figures)


@pytest.mark.parametrize(("page", "anchor", "figures"), list(rows()))
def test_a_workload_of_the_readme_has_the_figures_of_its_table(page, anchor, figures):
    table = list(cells(ROOT / page, anchor))
    library, ours, speedup = figures
    if any(holds(numbers, figures) for numbers in table):
        return
    # Each kernel has a row of its own: its time is the first number.
    assert holds([numbers[0] for numbers in table if numbers], [library, ours])
    assert is_rounded(speedup, float(library) / float(ours))
