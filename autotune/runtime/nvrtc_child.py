"""Compiles one kernel with NVRTC and ends; a script that needs the standard library alone.

Standard input holds the request as JSON: library, source, options, headers, out. What the compiler
says goes to standard output; the status is 0 and ``out`` is written when it accepted the source.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any


def main(request: dict[str, Any]) -> int:
    """Compile and return the exit status."""
    library = Path(request["library"])
    # NVRTC looks for this one by name only, and finds it once it is loaded.
    for part in library.parent.glob("libnvrtc-builtins.so*"):
        ctypes.CDLL(str(part), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(library))
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    names = [name.encode() for name in request["headers"]]
    texts = [text.encode() for text in request["headers"].values()]
    options = [option.encode() for option in request["options"]]
    program = ctypes.c_void_p()
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
        sys.stdout.write(_fetched(nvrtc, program, "ProgramLog").rstrip(b"\0").decode())
    if status:
        print(f"nvrtc: {nvrtc.nvrtcGetErrorString(status).decode()}")
        return 1
    Path(request["out"]).write_bytes(_fetched(nvrtc, program, "CUBIN"))
    return 0


def _fetched(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """Return the log or the cubin: each has a call for its size and one for its bytes."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(1, size.value))
    getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw[: size.value]


if __name__ == "__main__":
    sys.exit(main(json.load(sys.stdin)))
