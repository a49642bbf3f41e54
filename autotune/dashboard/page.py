"""The page as files, and as one file that needs no server."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from autotune.dashboard.json_arrays import to_text

# In the order in which they depend on each other; nothing else is ever served.
SCRIPTS = ("format.js", "draw.js", "plots.js", "parallel.js", "heat.js", "timeline.js",
           "roofline.js", "energy.js", "winner.js", "failures.js", "filters.js", "trials.js",
           "source.js", "overview.js", "fleet.js", "main.js")  # fmt: skip
STYLES = ("vendor/uPlot.min.css", "page.css")
LIBRARY = "vendor/uPlot.iife.min.js"
_IMPORT = re.compile(r"^import\b[^;]*;\n?", re.M)
_EXPORT = re.compile(r"^export (?=const|let|function|async|class)", re.M)
# What could end the element that holds JSON, or a line of a script.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


@cache
def assets() -> Mapping[str, str]:
    """Return the files of the page by name, in the order in which they are loaded."""
    folder = files("autotune.dashboard") / "static"
    names = ("index.html", *STYLES, LIBRARY, *SCRIPTS)
    return {name: folder.joinpath(name).read_text("utf-8") for name in names}


def bundle() -> str:
    """Return all modules as one script: no two of them have a top-level name in common."""
    parts = [_EXPORT.sub("", _IMPORT.sub("", assets()[name])) for name in SCRIPTS]
    return "(() => {\n" + "\n".join(parts) + "})();\n"


def one_file(data: Mapping[str, object], title: str, above: str = "") -> str:
    """Return the page with its data in it: one file that asks nothing of anybody.

    Args:
        data: what `Model.report` gives.
        title: of the page.
        above: HTML that goes right before the main part; the caller escapes what is in it.
    """
    known = assets()
    style = "\n".join(known[name] for name in STYLES)
    script = known[LIBRARY] + bundle()
    text = to_text(data).translate(_ESCAPES)
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>"
    )
    page = known["index.html"]
    page = _between(page, "head", head)
    page = page.replace("<main ", f"{above}<main ", 1)
    embedded = f'<script type="application/json" id="snapshot">{text}</script>\n'
    return page.replace("</body>", f"{embedded}<script>{script}</script>\n</body>", 1)


def _between(page: str, mark: str, text: str) -> str:
    """Replace what is between two marks, which are comments."""
    begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    return page[: page.index(begin)] + text + page[page.index(end) + len(end) :]


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
