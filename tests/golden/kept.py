"""Generated texts as they are kept: of a helper function the name, and its text only once.

`// helper exp_f32` in a text stands for the file `helpers/exp_f32.c`.
"""

import re
from pathlib import Path

TEXTS = Path(__file__).parent / "texts"
HELPERS = Path(__file__).parent / "helpers"


def fold(source, helpers):
    """Return a source with names for its helpers, and which these are."""
    used = [name for name, text in helpers.items() if text in source]
    for name in used:
        source = source.replace(helpers[name], f"// helper {name}\n", 1)
    return source, used


def whole_text(path):
    """Return a kept source with the texts of its helpers."""

    def text_of(match):
        return (HELPERS / f"{match[1]}{path.suffix}").read_text()

    return re.sub(r"^// helper (\w+)\n", text_of, path.read_text(), flags=re.MULTILINE)
