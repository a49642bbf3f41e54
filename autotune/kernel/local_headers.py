"""Headers in the folder of a source file, where compilers look for what a text names in quotes.

They compile the text in a folder of its own, so they are told where the file was: before any
other folder, as they look there first.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path

_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def header_flags(path: Path, text: str) -> tuple[str, ...]:
    """Return the flags by which compilers find the headers that are beside a source file.

    Args:
        path: of the file.
        text: what is in it; only where it includes a file that is there anything is returned.
    """
    folder = path.absolute().parent
    # Unlike `Path.is_file` this says no of a name that is too long.
    beside = any(os.path.isfile(folder / name) for name in _QUOTED.findall(text))
    return (f"-I{folder}",) if beside else ()
