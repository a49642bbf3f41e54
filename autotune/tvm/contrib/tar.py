"""TVM's `contrib.tar`: archives of files."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["tar", "untar"]


def tar(
    output: str | os.PathLike[str],
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> None:
    """Write an archive of files; ``export_library(path, tar)`` does without."""
    listed = [files] if isinstance(files, str | os.PathLike) else list(files)
    with tarfile.open(output, "w") as archive:
        for each in listed:
            archive.add(each, arcname=Path(each).name)


def untar(tar_file: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
    """Extract an archive into a folder; nothing is written outside of it."""
    with tarfile.open(tar_file) as archive:
        archive.extractall(directory, filter="data")
