"""Temporary folders as TVM scripts make them."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path

from autotune.utils.files import remove_own

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A folder that goes with the object, or at the end of the process.

    Example::

        folder = tempdir()
        func.export_library(folder.relpath("conv2d.so"))

    Attributes:
        temp_dir: its path.
    """

    def __init__(self) -> None:
        self.temp_dir = tempfile.mkdtemp(prefix="autotune-")
        self._remove = weakref.finalize(self, remove_own, self.temp_dir, os.getpid())

    @property
    def path(self) -> Path:
        """The path of the folder."""
        return Path(self.temp_dir)

    def relpath(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """Return the names of what is in the folder."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Remove the folder now."""
        self._remove()


def tempdir() -> TempDirectory:
    """Make a temporary folder."""
    return TempDirectory()
