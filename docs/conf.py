"""Sphinx settings of the book: `make docs` builds it into docs/_build/html."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
VERSION = (ROOT / "autotune" / "version.py").read_text("utf-8")

project = "autotune"
author = "the autotune contributors"
copyright = "the autotune contributors, Apache-2.0"
release = re.search(r'__version__ = "([^"]+)"', VERSION).group(1)

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
# Short names in docstrings, such as `bytes`, may mean members of several classes.
suppress_warnings = ["ref.python"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# A shell prompt is not copied with the command behind it.
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

# Docstrings are Google's style, in plain text; types stand in the signature.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "groupwise"
autodoc_default_options = {"members": True, "imported-members": True}
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"autotune {release}"
html_theme_options = {"top_of_page_buttons": []}
html_show_sphinx = False


def draw_loops(app, what, name, obj, options, lines):
    """Keep the line breaks of loops drawn in a docstring, paragraphs that begin with "for x:"."""
    drawn, new = False, []
    for before, line in zip(["", *lines], lines, strict=False):
        if not before.strip():
            drawn = bool(re.match(r"for [^.]*:", line))
            new += ["::", ""] * drawn
        new.append("    " * (drawn and bool(line.strip())) + line)
    lines[:] = new


def setup(app):
    """Called by Sphinx. Runs before napoleon, which reads the sections."""
    app.connect("autodoc-process-docstring", draw_loops, priority=100)
