"""The reference has every public name."""

import importlib
import inspect
import re

import pytest

import autotune
from tests.docs.test_pages import ROOT

API = ROOT / "docs" / "api"
# Faces whose pages take everything from `__all__`.
FACES = sorted(
    path.stem for path in API.glob("*.md")
    if re.search(rf"automodule:: autotune\.{path.stem}$", path.read_text("utf-8"), re.MULTILINE)
)  # fmt: skip


def test_each_name_of_the_facade_is_listed():
    text = (API / "autotune.md").read_text("utf-8")
    names = set(autotune.__all__) - {"__version__"}
    listed = set(re.findall(r"^\| (?:\{py:obj\}|\[)?`?(\w+)", text, re.MULTILINE))
    assert names <= listed, sorted(names - listed)


def test_a_listed_name_is_where_the_table_says():
    text = (API / "autotune.md").read_text("utf-8")
    for name, home in re.findall(r"\{py:obj\}`(\w+) <([\w.]+)>`", text):
        module, _, attribute = home.rpartition(".")
        assert getattr(importlib.import_module(module), attribute) is getattr(autotune, name)


@pytest.mark.parametrize("face", FACES)
def test_each_public_name_of_a_face_has_a_docstring(face):
    module = importlib.import_module(f"autotune.{face}")
    for name in getattr(module, "__all__", ()):
        found = getattr(module, name)
        if inspect.isclass(found) or inspect.isroutine(found):
            assert found.__doc__, f"autotune.{face}.{name}"


def test_each_ready_made_template_is_in_the_reference():
    text = (API / "templates.md").read_text("utf-8")
    listed = set(re.findall(r"autofunction:: autotune\.templates\.([\w.]+)", text))
    registered = {
        f"{path.stem}.{function}"
        for path in (ROOT / "templates").glob("source*.py")
        for function in re.findall(r"^@template\(.*\)\ndef (\w+)", path.read_text("utf-8"), re.M)
    }
    assert registered == listed, "docs/api/templates.md lists a template with its arguments"
