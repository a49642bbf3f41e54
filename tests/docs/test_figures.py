"""Figures that the README and the summary of benchmarks repeat are those of their tables."""

import re

import pytest

from tests.docs.test_links import ROOT

DOCS = ROOT / "docs"
_LINK = re.compile(r"\[[^\]]*\]\((?:docs/)?([^)#]+\.md)#([^)]+)\)")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def section(page, anchor):
    """Returns the text under a heading, which its anchor names."""
    for part in re.split(r"^#+ ", page.read_text("utf-8"), flags=re.MULTILINE):
        title = part.partition("\n")[0]
        if re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") == anchor:
            return part
    raise AssertionError(f"{page.name} has no heading #{anchor}")


def rows():
    """Yields the single workloads: page and anchor of a table, and the three figures.

    A row whose name is no link is of the section that the one above it links.
    """
    text = (DOCS / "benchmarks.md").read_text("utf-8")
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
def test_a_single_workload_has_the_figures_of_its_table(page, anchor, figures):
    table = list(cells(DOCS / page, anchor))
    library, ours, speedup = figures
    if any(holds(numbers, figures) for numbers in table):
        return
    # Each kernel has a row of its own: its time is the first number.
    assert holds([numbers[0] for numbers in table if numbers], [library, ours])
    assert is_rounded(speedup, float(library) / float(ours))


def means():
    """Yields the areas of the README: page and anchor of a section, and the mean beside it."""
    text = (ROOT / "README.md").read_text("utf-8")
    table = text.partition("| workloads | beside | speedup |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        name, _, figure = (cell.strip() for cell in line.strip("|").split("|"))
        page, anchor = _LINK.match(name).groups()
        yield pytest.param(page, anchor, figure.split()[0], id=anchor)


@pytest.mark.parametrize(("page", "anchor", "mean"), list(means()))
def test_an_area_of_the_readme_has_the_mean_of_the_summary(page, anchor, mean):
    lines = (DOCS / "benchmarks.md").read_text("utf-8").splitlines()
    summaries = [
        line for line in lines if line.startswith("| [") and f"]({page}#{anchor})" in line
    ]
    assert mean in [line.split("|")[2].strip() for line in summaries]
