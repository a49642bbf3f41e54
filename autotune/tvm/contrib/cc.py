"""TVM's `contrib.cc`: shared objects of what modules wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

from autotune.errors import CompileError
from autotune.utils.check import Check

__all__ = ["create_shared", "get_cc"]

_EXPECTED = "the path of an object file, or a list of them"


def get_cc() -> str | None:
    """Return the path of the compiler of C: that of ``CXX`` or ``CC``, or ``cc``; None without."""
    named = (os.environ.get(name) for name in ("CXX", "CC"))
    return next(filter(None, map(shutil.which, filter(None, (*named, "cc", "gcc")))), None)


def create_shared(
    output: str | os.PathLike[str],
    objects: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> None:
    """Link object files.

    What `Module.save` wrote is copied: it is read by `load_module` under any name.

    Args:
        output: where to.
        objects: one or several files.
        options: of the compiler.
        cc: the compiler; by default ``cc``.

    Raises:
        CompileError: a file or the compiler is missing, the compiler refuses the files, or nothing
            can be written there.
    """
    check = Check(CompileError, "create_shared")
    listed = [objects] if isinstance(objects, str | os.PathLike) else objects
    paths = [
        Path(check.path("objects", each)) for each in check.sequence("objects", listed, _EXPECTED)
    ]
    missing = [path for path in paths if not path.is_file()]
    if missing or not paths:
        check.refuse("objects", _EXPECTED, objects)
    target = Path(check.path("output", output))
    command = [cc or "cc", "-shared", "-fPIC", "-o", str(target), *map(str, paths)]
    try:
        if not any(zipfile.is_zipfile(path) for path in paths):
            _run([*command, *(options or ())])
        elif len(paths) == 1:
            shutil.copyfile(paths[0], target)
        else:
            raise CompileError(
                "create_shared: a file that Module.save wrote holds a whole function, and is not "
                "linked with others: call create_shared for each"
            )
    except OSError as error:
        raise CompileError(f"create_shared: cannot write {target}: {error}") from error


def _run(command: Sequence[str]) -> None:
    """Run the compiler.

    Raises:
        CompileError: it cannot be run, or refuses the files.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompileError(f"create_shared: cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        raise CompileError(f"create_shared: {' '.join(command)}: {done.stderr.strip()}")
