"""Cache folders for tests, in which the rates of this CPU are known already."""

import contextlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from autotune.runtime import Ceilings, cpu, roofline

# As of a fast server. To measure them takes seconds, in every new cache.
RATES = ((1 << 16, 4e11), (1 << 28, 1e11)), {"float32": 1e12, "float64": 5e11}


# What is found there by all that decides it, so that another run of the tests may use it.
COMPILED = ("build", "emulator")


def make_cache(folder, compiled=None):
    """Makes a folder a cache that holds nothing but the ceilings of the CPU; returns its path.

    Args:
        folder: where it is made.
        compiled: a folder in which what is compiled stays; by default it stays in the cache.
    """
    name = roofline._identity(cpu())
    file = folder / "ceilings" / roofline._path(name).name
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole = file.with_name(f"{file.name}.{os.getpid()}")
    whole.write_text(json.dumps(asdict(Ceilings(name, *RATES))))
    whole.replace(file)
    for each in COMPILED if compiled else ():
        kept = Path(compiled).absolute() / each
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another process of this run has made it
            (folder / each).symlink_to(kept)
    return str(folder)
