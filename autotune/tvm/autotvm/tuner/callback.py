"""AutoTVM's `tuner.callback`."""

from __future__ import annotations

import os
from io import TextIOBase

from autotune.record import Database
from autotune.tuner.callback import *
from autotune.tuner.callback import __all__ as _ours
from autotune.tuner.callback import log_to_file as _log_to_file
from autotune.tuner.display.progress import Watcher

__all__ = [*_ours]


def log_to_file(  # type: ignore[no-redef]
    file_out: str | os.PathLike[str] | TextIOBase | Database, protocol: str = "json"
) -> Watcher:
    """Append every trial to a log that has nothing but records.

    The winner of the final race is a record as well, of a configuration that was tried before,
    where autotune's own callback writes a comment: scripts parse lines of AutoTVM's logs as JSON,
    and these never have comments.

    Args:
        file_out: a path, a folder or URL of a database, a database, or an open text file.
        protocol: "json".

    Raises:
        TunerError: another protocol.
    """
    return _log_to_file(file_out, protocol, comments=False)
