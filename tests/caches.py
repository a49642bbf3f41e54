"""Cache folders for tests, in which the rates of this CPU are known already."""

import json
import os
from dataclasses import asdict

from autotune.runtime import Ceilings, cpu, roofline

# As of a fast server. To measure them takes seconds, in every new cache.
RATES = ((1 << 16, 4e11), (1 << 28, 1e11)), {"float32": 1e12, "float64": 5e11}


def make_cache(folder):
    """Makes a folder a cache that holds nothing but the ceilings of the CPU; returns its path."""
    name = roofline._identity(cpu())
    file = folder / "ceilings" / roofline._path(name).name
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole = file.with_name(f"{file.name}.{os.getpid()}")
    whole.write_text(json.dumps(asdict(Ceilings(name, *RATES))))
    whole.replace(file)
    return str(folder)
