"""Cache folders for tests, in which the rates of this CPU are known already."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path

import autotune
from autotune.runtime import Ceilings, cpu, roofline

# As of a fast server. To measure them takes seconds, in every new cache.
RATES = ((1 << 16, 4e11), (1 << 28, 1e11)), {"float32": 1e12, "float64": 5e11}


# What is found there by all that decides it, so that another run of the tests may use it. But for
# our own code: what is taken from a compiler's answer is kept too.
COMPILED = ("build", "emulator")
_CODE = ("runtime/compile", "emulator", "utils/command.py")
# Seconds after which what other code compiled is deleted, if no run has used it.
_UNUSED_S = 7 * 24 * 3600


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
    if compiled:
        _share(folder, Path(compiled).absolute())
    return str(folder)


def _share(folder, compiled):
    """Has a cache keep what is compiled in a folder of its own for this code."""
    kept = compiled / f"code-{code_digest()}"
    for each in COMPILED:
        (kept / each).mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another process of this run has made it
            (folder / each).symlink_to(kept / each)
    os.utime(kept)
    for other in compiled.glob(f"code-{'[0-9a-f]' * 16}"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - other.stat().st_mtime > _UNUSED_S:
                shutil.rmtree(other, ignore_errors=True)


@cache
def code_digest():
    """Return a digest of the code that calls compilers and reads what they say."""
    package, digest = Path(autotune.__file__).parent, hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).as_posix().startswith(_CODE):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
