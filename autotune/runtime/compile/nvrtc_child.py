"""The child process that compiles with NVRTC: one kernel after another, until its parent ends.

A request holds library, source, options, headers and the path ``out``; a reply the exit status and
what the compiler said. The status is 0, and ``out`` written, when it accepted the source.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from autotune.utils.child import Port


def main(port: Port) -> None:
    """Serve requests; the parent's end is noticed in the middle of a compilation as well."""
    port.watch()
    while True:
        port.send(_compile(port.receive()))


@functools.cache
def _library(path: Path) -> ctypes.CDLL:
    # NVRTC looks for this one by name only, and finds it once it is loaded.
    for part in path.parent.glob("libnvrtc-builtins.so*"):
        ctypes.CDLL(str(part), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(path))
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return nvrtc


def _compile(request: dict[str, Any]) -> dict[str, object]:
    """Compile one kernel and return the reply."""
    nvrtc = _library(Path(request["library"]))
    names = [name.encode() for name in request["headers"]]
    texts = [text.encode() for text in request["headers"].values()]
    options = [option.encode() for option in request["options"]]
    program = ctypes.c_void_p()
    log = ""
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program),
        request["source"].encode(),
        b"kernel.cu",
        len(names),
        (ctypes.c_char_p * len(texts))(*texts),
        (ctypes.c_char_p * len(names))(*names),
    )
    if not status:
        status = nvrtc.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options)
        )
        log = _fetch(nvrtc, program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
    if status:
        log += f"nvrtc: {nvrtc.nvrtcGetErrorString(status).decode()}\n"
    else:
        Path(request["out"]).write_bytes(_fetch(nvrtc, program, "CUBIN"))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return {"status": int(bool(status)), "log": log}


def _fetch(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """Return the log or the cubin: each has a call for its size and one for its bytes."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(1, size.value))
    getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw[: size.value]
