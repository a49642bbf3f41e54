"""The page of a run that is under way, in a process of its own: ``tune(..., dashboard=True)``.

It tells its link on standard output, and may be paused from then on. It ends when standard input
does, which is when the process that tunes has ended, however that came. On standard input come
one JSON object a line, sources of winners, as this process does not have the templates, and who
builds and measures on other hosts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from autotune.dashboard.guard import Guard
from autotune.dashboard.model import Model
from autotune.dashboard.server import run
from autotune.dashboard.winner import Sources
from autotune.errors import AutotuneError
from autotune.utils.child import wake_with_parent

# Below whatever compiles and measures.
_NICE = 10


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="autotune.dashboard")
    parser.add_argument("--port", type=int, help="by default any that is free")
    parser.add_argument("logs", nargs="+", type=Path)
    options = parser.parse_args()
    wake_with_parent()
    _step_back()
    sources = Sources(make=None)
    model = Model(options.logs, sources)

    def ready(link: str) -> None:
        print(json.dumps({"link": link}), flush=True)

    try:
        run(model, Guard(), options.port, ready, lambda: _input_ended(model, sources))
    except AutotuneError as error:
        print(json.dumps({"error": str(error)}), flush=True)


def _step_back() -> None:
    """Leave the cores to whatever compiles and measures; what is timed is interrupted less."""
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError, AttributeError):  # Linux knows it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


async def _input_ended(model: Model, sources: Sources) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def read() -> None:
        for line in sys.stdin:
            with suppress(ValueError, TypeError, KeyError):
                loop.call_soon_threadsafe(take, json.loads(line))
        with suppress(RuntimeError):  # the loop may have ended before
            loop.call_soon_threadsafe(ended.set)

    def take(given: dict[str, Any]) -> None:
        if "workers" in given:
            model.workers = [row for row in given["workers"] if isinstance(row, dict)]
        else:
            sources.given(given["target"], given["key"], given["source"])
        model.revision += 1

    threading.Thread(target=read, daemon=True).start()
    await ended.wait()


if __name__ == "__main__":
    main()
