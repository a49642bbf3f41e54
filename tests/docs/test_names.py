"""The pages for users and the notebook name what is there: paths, files of kernels, and names."""

import re
from importlib import import_module

import pytest

from tests.docs.test_architecture import FOLDERS, files
from tests.docs.test_links import DOCUMENTS
from tests.docs.test_pages import ROOT, name

_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`+([^`\s]+)`+")
_PATH = re.compile(rf"({'|'.join(map(re.escape, FOLDERS))})/.*")
_FILE = re.compile(r"[\w/*.-]+\.(py|h|cu)")
_NAME = re.compile(r"(autotune(\.\w+)+)(\(\S*\))?")
# Folders that commands make.
MADE = {"docs/_build/html", "benchmarks/results"}


def spans(path):
    """Returns what a page has in code, outside of its blocks."""
    return sorted(set(_SPAN.findall(_BLOCK.sub("", path.read_text("utf-8")))))


def is_there(path):
    """Returns whether a path, or the end of one, is that of a file or folder."""
    tail = re.escape(path.rstrip("/")).replace(r"\*", "[^/]*")
    wanted = re.compile(rf"/{tail}(/|$)")
    return any(wanted.search(each) for each in files())


def resolved(dotted):
    """Returns the module or object of a dotted name; raises an AttributeError if there is none."""
    head, *rest = dotted.split(".")
    found, path = import_module(head), head
    for part in rest:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = import_module(path)
            except ImportError:
                raise AttributeError(dotted) from None
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_path_that_a_page_names_is_there(path):
    named = [span for span in spans(path) if _PATH.fullmatch(span) and span not in MADE]
    assert [span for span in named if not is_there(span)] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("measurements*.md")), ids=name)
def test_a_file_that_the_notebook_names_is_there(path):
    named = [span for span in spans(path) if _FILE.fullmatch(span)]
    assert [span for span in named if not is_there(span)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_dotted_name_that_a_page_has_can_be_found(path):
    for span in spans(path):
        found = _NAME.fullmatch(span)
        assert not found or resolved(found[1]) is not None


def test_a_wrong_path_and_a_wrong_name_are_noticed():
    assert is_there("autotune/tuner/ga_tuner.py")
    assert not is_there("autotune/tuner/ga_tuners.py")
    assert resolved("autotune.tuner.AutoTuner")
    with pytest.raises(AttributeError, match=r"autotune\.tuner\.AutoTuners"):
        resolved("autotune.tuner.AutoTuners")
