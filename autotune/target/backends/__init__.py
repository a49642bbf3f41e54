"""The back ends: one row each. A new one is a row here and a folder in ``runtime/``."""

from __future__ import annotations

from autotune.target.backends.backend import Backend, Compiler, Facts, Language, part
from autotune.target.backends.cuda import CUDA, EMULATED
from autotune.target.backends.host import HOST

# Each runs a language of its own on devices of its own.
_NATIVE = (CUDA, HOST)
BACKENDS = (*_NATIVE, EMULATED)
# kind of target -> what builds for it.
BY_KIND = {kind: backend for backend in _NATIVE for kind in backend.kinds}
_BY_LANGUAGE: dict[str, Backend] = {backend.language: backend for backend in _NATIVE}
_BY_DEVICE: dict[str, Backend] = {backend.device: backend for backend in _NATIVE}
LANGUAGES = tuple(backend.language for backend in _NATIVE)


def of_language(language: str) -> Backend:
    """Returns the back end of kernels in a language, on the devices that it was made for."""
    return _BY_LANGUAGE[language]


def of_device(kind: str) -> Backend | None:
    """Returns the back end whose kernels run on a kind of device; None if there is none."""
    return _BY_DEVICE.get(kind)


def of_threads(bound: bool) -> Backend:
    """Return the back end for a schedule without a target, by whether its loops bind threads."""
    return next(backend for backend in BACKENDS if backend.on_gpu == bound)


__all__ = [
    "BACKENDS",
    "BY_KIND",
    "CUDA",
    "EMULATED",
    "HOST",
    "LANGUAGES",
    "Backend",
    "Compiler",
    "Facts",
    "Language",
    "of_device",
    "of_language",
    "of_threads",
    "part",
]
