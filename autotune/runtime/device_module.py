"""The device part of a built function, as TVM's scripts ask a module for it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from autotune.errors import KernelError
from autotune.kernel.kernel import Kernel
from autotune.runtime.compile.ptx import ptx_of
from autotune.target import Target
from autotune.target.backends import of_language
from autotune.utils.check import Check
from autotune.utils.files import publish

_TIMEOUT_S = 600.0
# Kinds of files with device code alone, which `DeviceModule.save` writes.
DEVICE_FILES = (".ptx", ".cu", ".c")
# Begins the last line of PTX that was written here.
_MARK = "\n// autotune: "


class DeviceModule:
    """The device part of a module: its source text.

    Args:
        kernel: the function.
        target: what it was built for.
    """

    __slots__ = ("_kernel", "_target")

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self._kernel = kernel
        self._target = target

    @property
    def type_key(self) -> str:
        """The language of the text, ``"cuda"`` or ``"c"``."""
        return self._kernel.language

    def get_source(self, fmt: str = "") -> str:
        """Return the source text.

        Args:
            fmt: empty, or the language it is in.

        Raises:
            KernelError: another format is asked for.
        """
        if not isinstance(fmt, str) or fmt not in ("", "cu", self._kernel.language):
            expected = f"empty or {self._kernel.language!r}, as which the source is kept"
            Check(KernelError, self._kernel.name).refuse("fmt", expected, fmt)
        return self._kernel.source

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Write the device code alone, for programs of other languages.

        Args:
            file_name: its ending says what is written: PTX, or the source text.
            fmt: the same in place of the ending, ``"ptx"``, ``"cu"`` or ``"c"``.

        Raises:
            KernelError: the code does not exist in this form, or no file can be written there.
            CompileError: there is no nvcc, which makes PTX.
        """
        check = Check(KernelError, f"{self._kernel.name}: save")
        path = Path(check.path("file_name", file_name))
        form = fmt or path.suffix.removeprefix(".")
        forms = ("ptx", "cu") if of_language(self._kernel.language).on_gpu else ("c",)
        if form not in forms:
            check.refuse(
                "file_name", f"a name that ends with one of {', '.join(forms)}", path.name
            )
        content = self._kernel.source
        if form == "ptx":
            arch = self._target.arch or ""
            content = _signed(self._kernel, ptx_of(self._kernel, arch, _TIMEOUT_S).decode())
        try:
            publish(path, content.encode())
        except OSError as error:
            raise KernelError(
                f"{self._kernel.name}: save: cannot write {path}: {error.strerror}"
            ) from error

    def is_of(self, kernel: Kernel) -> bool:
        """Returns whether it is the device code of this kernel."""
        return self._kernel.source == kernel.source


class DeviceFile:
    """A file with device code alone, as `Module.import_module` takes it.

    Args:
        path: what `DeviceModule.save` wrote.

    Raises:
        KernelError: there is no such file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise KernelError(f"load_module: there is no file {os.fspath(path)!r}")

    def get_source(self, fmt: str = "") -> str:
        """Return its text; ``fmt`` is accepted for scripts of TVM."""
        del fmt
        return self.path.read_text("utf-8", errors="replace")

    def is_of(self, kernel: Kernel) -> bool:
        """Returns whether it holds what `DeviceModule.save` wrote for this kernel, unchanged."""
        text = self.get_source()
        code, mark, _ = text.rpartition(_MARK)
        return text == kernel.source or (bool(mark) and text == _signed(kernel, code))


def _signed(kernel: Kernel, ptx: str) -> str:
    """Return PTX with a comment after it that tells which text it was compiled from."""
    digest = hashlib.sha256(f"{kernel.source}\0{ptx}".encode()).hexdigest()
    return f"{ptx}{_MARK}{digest}\n"
