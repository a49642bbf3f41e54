"""Triton's cache of autotuning: ``*.autotune.json`` under ``TRITON_CACHE_DIR``.

Triton writes one with ``@triton.autotune(..., cache_results=True)`` or
``TRITON_CACHE_AUTOTUNING=1``: the values of the key, and for each `triton.Config` the median and
the 20% and 80% quantiles of its time in milliseconds, or infinities where it could not run
(``Autotuner.check_disk_cache`` in triton/runtime/autotuner.py, version 3.3 and later). Which
device, which source and why a configuration failed are not in it.
"""

from __future__ import annotations

import math
from pathlib import Path

from autotune.interchange.foreign_files import (
    ForeignFileError,
    an_object,
    kind_of,
    parse,
    read_text,
)
from autotune.interchange.trials import Trial, Trials, number, plain, read_each, seconds_of
from autotune.measure.types import MeasureErrorNo
from autotune.record.paths import LogPath, log_path

TOOL = "Triton"
SUFFIX = ".autotune.json"
_MS = 1e-3
# Fields of a `triton.Config` beside its own keyword arguments, where they are set.
_OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")
# Standard deviations of normal noise between its 20% and its 80% quantile.
_SIGMAS = 1.6832
_FAILED = (
    "Triton noted no time: not enough shared memory or registers, a compile-time assertion, or "
    "ptxas refused it; its cache does not say which"
)


def triton_files(path: LogPath) -> list[Path]:
    """Return the file itself, or all such files below a folder, in the order of their names.

    Raises:
        ForeignFileError: the folder has none.
    """
    where = log_path(path)
    if not where.is_dir():
        return [where]
    found = sorted(where.rglob(f"*{SUFFIX}"))
    if not found:
        raise ForeignFileError(
            f"{where} has no *{SUFFIX}: Triton writes them with "
            "@triton.autotune(..., cache_results=True) or TRITON_CACHE_AUTOTUNING=1"
        )
    return found


def read_triton(path: LogPath) -> Trials:
    """Read one file; the kernel's name is that of the file.

    Raises:
        ForeignFileError: it cannot be read, or is no such file.
    """
    where = log_path(path)
    return trials_of(parse(read_text(where), where), where)


def trials_of(data: object, where: Path) -> Trials:
    """Return the trials in the JSON of a cache; see `read_triton`."""
    top = an_object(data, "a file of Triton's autotuner", where)
    rows, key = top.get("configs_timings"), top.get("key")
    if not isinstance(rows, list) or not isinstance(key, list):
        raise ForeignFileError(f"{where}: expected 'key' and 'configs_timings' to be arrays")
    named = ((f"configuration {i}", row) for i, row in enumerate(rows))
    trials, problems = read_each(named, _trial)
    names = dict.fromkeys(name for one in trials for name in one.choices)
    # What only some of the configurations set is null in the others.
    trials = [_with_all(one, names) for one in trials]
    return Trials(
        tool=TOOL,
        name=where.name.removesuffix(".gz").removesuffix(SUFFIX),
        args=tuple(plain(key)),
        device=None,
        # Triton runs elsewhere too, and does not say where it did.
        target="cuda",
        knobs={name: [] for name in names},
        trials=trials,
        problems=problems,
    )


def _with_all(trial: Trial, names: dict[str, None]) -> Trial:
    return Trial(**{**vars(trial), "choices": {name: trial.choices.get(name) for name in names}})


def _trial(row: object) -> Trial:
    if not isinstance(row, list) or len(row) != 2 or not isinstance(row[0], dict):
        raise ValueError(f"expected a configuration with its times, got {kind_of(row)}")
    config, timing = row
    own = config.get("kwargs")
    if not isinstance(own, dict):
        raise ValueError("its 'kwargs' are no object")
    options = {name: config[name] for name in _OPTIONS if config.get(name) is not None}
    choices: dict[str, object] = plain({**own, **options})
    if not choices:
        raise ValueError("it chooses nothing")
    times = timing if isinstance(timing, list) else [timing]
    entry = {"config": plain(config), "timing": plain(timing)}
    if times and all(isinstance(one, float) and one == math.inf for one in times):
        failed = MeasureErrorNo.COMPILE_DEVICE
        return Trial(choices, error_no=failed, error_msg=_FAILED, entry=entry)
    seconds = seconds_of(times[0], _MS) if times else None
    if seconds is None:
        raise ValueError(f"its time is no number of milliseconds: {str(timing)[:80]}")
    return Trial(choices, seconds=seconds, spread=_spread(times), entry=entry)


def _spread(times: list[object]) -> float | None:
    """Return the spread of one sample, estimated from the quantiles at 20% and at 80%."""
    known = [number(one) for one in times]
    if len(known) != 3 or None in known:
        return None
    median, low, high = (one for one in known if one is not None)
    return max(0.0, high - low) / _SIGMAS / median if median > 0 else None
