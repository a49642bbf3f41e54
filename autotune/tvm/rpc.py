"""TVM's `rpc`: a session on this host. Other hosts are those of `autotune.fleet`."""

from __future__ import annotations

import os
import shutil
from typing import Any

from autotune.errors import AutotuneError
from autotune.runtime.device import Device, device
from autotune.tvm.contrib.utils import tempdir
from autotune.tvm.runtime.module import load_module
from autotune.utils.check import Check

__all__ = ["LocalSession", "RPCSession"]


class RPCSession:
    """A host with a folder of uploaded files; `LocalSession` makes one."""

    def __init__(self) -> None:
        self._files = tempdir()

    def upload(self, data: str | os.PathLike[str], target: str | None = None) -> None:
        """Copy a file into the folder, called ``target`` there, or as it is called here."""
        check = Check(AutotuneError, "upload")
        path = check.path("data", data)
        try:
            shutil.copy(path, self._files.relpath(target or os.path.basename(path)))
        except OSError as error:
            raise AutotuneError(f"upload: cannot copy {path}: {error.strerror}") from error

    def download(self, path: str) -> bytearray:
        """Return the bytes of an uploaded file."""
        with open(self._uploaded(path), "rb") as file:
            return bytearray(file.read())

    def remove(self, path: str) -> None:
        """Remove an uploaded file."""
        os.remove(self._uploaded(path))

    def load_module(self, path: str) -> Any:
        """Load an uploaded file that ``export_library`` wrote; see `load_module`."""
        return load_module(self._uploaded(path))

    def device(self, dev_type: str, dev_id: int = 0) -> Device:
        """Return a device of the host."""
        return device(dev_type, dev_id)

    context = device

    def cpu(self, dev_id: int = 0) -> Device:
        """Return the CPU."""
        return device("cpu", dev_id)

    def cuda(self, dev_id: int = 0) -> Device:
        """Return a GPU."""
        return device("cuda", dev_id)

    gpu = cuda

    def _uploaded(self, path: str) -> str:
        found = self._files.relpath(path)
        if not os.path.isfile(found):
            Check(AutotuneError, "session").refuse("path", f"one of {self._files.listdir()}", path)
        return found


class LocalSession(RPCSession):
    """A session on this host, in this process."""
