"""TVM's `contrib.download`: files of the web, fetched once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlretrieve

from autotune.errors import AutotuneError
from autotune.utils.check import Check

__all__ = ["download", "download_testdata"]

# Where TVM keeps them as well.
_FOLDER = Path("~/.tvm_test_data")


def download(
    url: str,
    path: str | os.PathLike[str],
    overwrite: bool = False,
    size_compare: bool = False,
    retries: int = 3,
) -> None:
    """Fetch a file, unless it is there.

    Args:
        url: of the file.
        path: where to.
        overwrite: whether to fetch it again.
        size_compare: accepted for scripts of TVM.
        retries: how often to try.

    Raises:
        AutotuneError: it cannot be fetched.
    """
    del size_compare
    check = Check(AutotuneError, "download")
    check.text("url", url, "https://host/file")
    check.whole("retries", retries, least=1)
    place = Path(check.path("path", path))
    if place.exists() and not overwrite:
        return
    # A part of the file in its place would count as fetched from then on.
    part = place.with_name(f"{place.name}.{secrets.token_hex(4)}.part")
    try:
        for attempt in range(retries):
            try:
                urlretrieve(url, part)
                break
            except (URLError, OSError, ValueError) as error:
                if attempt == retries - 1:
                    raise AutotuneError(f"download: cannot fetch {url}: {error}") from error
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def download_testdata(
    url: str, relpath: str, module: str | Sequence[str] | None = None, overwrite: bool = False
) -> str:
    """Fetch a file into the folder of test data, and return its path.

    Args:
        url: of the file.
        relpath: its name there.
        module: a folder in that folder, or several nested ones.
        overwrite: whether to fetch it again.

    Raises:
        AutotuneError: it cannot be fetched.
    """
    nested = [module] if isinstance(module, str) else list(module or ())
    place = _FOLDER.expanduser().joinpath(*nested, relpath)
    place.parent.mkdir(parents=True, exist_ok=True)
    download(url, place, overwrite)
    return str(place)
