"""The pages for developers name what is there: files, folders, modules, classes, functions."""

import re
from functools import cache

import pytest

from tests.docs.test_pages import ROOT

PAGES = [*sorted((ROOT / "docs").glob("architecture*.md")), ROOT / "CONTRIBUTING.md"]
PAGE = "".join(page.read_text("utf-8") for page in PAGES)
SPANS = sorted(set(re.findall(r"`+([^`\n]+)`+", PAGE)))
PATHS = [
    s for s in SPANS if " " not in s and "_build" not in s and re.search(r"/|\.(py|h|c|cu|md)$", s)
]
HOPS = re.search(r"^```\n 1 Run.*?^```", PAGE, re.MULTILINE | re.DOTALL).group()
FOLDERS = (".ci", "autotune", "templates", "tests", "benchmarks", "docs", "examples")


@cache
def files():
    """Returns the paths of all files that are not made by running something."""
    below = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    every = [path for path in (*below, *ROOT.iterdir()) if path.is_file()]
    return [f"/{p.relative_to(ROOT)}" for p in every if "__pycache__" not in p.parts]


@cache
def words():
    """Returns the words of all programs, Makefile and settings."""
    texts = [ROOT / f[1:] for f in files() if re.search(r"(\.(py|h|c|cu|toml)|Makefile)$", f)]
    return {w for text in texts for w in re.findall(r"\w+", text.read_text("utf-8"))}


@pytest.mark.parametrize("path", PATHS)
def test_a_file_or_folder_that_is_named_is_there(path):
    tail = re.escape(path.rstrip("/")).replace(r"\*", "[^/]*")
    wanted = re.compile(rf"/{tail}(/|$)")
    assert any(wanted.search(each) for each in files())


def test_names_in_code_are_names_of_the_code():
    others = [s for s in SPANS if s not in PATHS and "*" not in s and "_build" not in s]
    unknown = {n for span in others for n in re.findall(r"[A-Za-z_]\w+", span)} - words()
    assert not unknown


def test_the_modules_and_methods_of_the_hops_are_there():
    for module in re.findall(r"\b(?:tuner|measure)/[\w/]+", HOPS):
        assert f"/autotune/{module}.py" in files(), module
    for names in re.findall(r"\b[A-Z]\w+\.\w+", HOPS):
        assert set(names.split(".")) <= words(), names
