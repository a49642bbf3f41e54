"""How processes end, and those that do not, in words."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

# What is killed ends in a moment; a GPU may need seconds to free the memory of a process.
END_S = 30.0


def describe_exit(code: int) -> str:
    """Say how a process ended: ``killed by SIGSEGV`` or ``exited with status 3``."""
    if code >= 0:
        return f"exited with status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def leave_behind(process: subprocess.Popen[Any]) -> str:
    """Go on without a process that did not end when it was killed, and say so.

    It is reaped whenever it ends.

    Returns:
        what is known of it, for a message.
    """
    threading.Thread(target=process.wait, daemon=True).start()
    pid = process.pid
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        state = "unknown"
    waits = " (it waits in the kernel, as for a device or disk that does not answer)"
    return (
        f"process {pid} was killed, but has not ended within {END_S:g} s: its state is {state}"
        f"{waits if state == 'D' else ''}; it is left behind, and ends when Linux lets it"
    )
