"""The live page: what logs hold as data for charts, a server of it, and the page itself.

`run` serves the page, `one_file` writes it with its data in it. A `Model` has the logs as columns,
read line by line by a `LineReader`, and a `View` is the part of them that a reader has chosen.
"""

from typing import TYPE_CHECKING

from autotune.dashboard.guard import Guard, is_local, new_token
from autotune.dashboard.lines import ALL_LINES, LineReader, choices_of, name_of
from autotune.dashboard.model import Model, snapshot
from autotune.dashboard.page import assets, one_file
from autotune.dashboard.view import View
from autotune.dashboard.winner import LEAST_SAMPLES, source_of
from autotune.utils.names import lazy

if TYPE_CHECKING:
    from autotune.dashboard.server import run

__all__ = [
    "ALL_LINES",
    "LEAST_SAMPLES",
    "Guard",
    "LineReader",
    "Model",
    "View",
    "assets",
    "choices_of",
    "is_local",
    "name_of",
    "new_token",
    "one_file",
    "run",
    "snapshot",
    "source_of",
]

if not TYPE_CHECKING:
    # Loaded when first used: a page in one file needs no web server.
    __getattr__ = lazy(__name__, {"run": "autotune.dashboard.server:run"})
