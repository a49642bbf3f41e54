"""Parameters of a search."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from autotune.auto_scheduler.errors import TuningOptionError
from autotune.utils.check import Check
from autotune.utils.names import did_you_mean

# A number, or a tiling structure.
Param = int | float | str
# Those of `SketchPolicy`.
DEFAULT_PARAMS: dict[str, Param] = {
    "eps_greedy": 0.05,
    "retry_search_one_round_on_empty": 1,
    "sample_init_min_population": 50,
    "sample_init_use_measured_ratio": 0.2,
    "evolutionary_search_population": 2048,
    "evolutionary_search_num_iters": 4,
    "evolutionary_search_mutation_prob": 0.85,
    "cpu_multi_level_tiling_structure": "SSRSRS",
    "gpu_multi_level_tiling_structure": "SSSRRSRS",
    "max_innermost_split_factor": 64,
    "max_vectorize_size": 16,
    "disable_change_compute_location": 0,
}
# Names that TVM 0.7 had.
_OLDER = {"evolutionary_search_use_measured_ratio": "sample_init_use_measured_ratio"}
_log = logging.getLogger("auto_scheduler")


def checked_params(given: Mapping[str, Param]) -> dict[str, Param]:
    """Return what is set, under the names of today; what nothing reads costs a warning.

    Raises:
        TuningOptionError: a value is not of the kind of the default.
    """
    check = Check(TuningOptionError, "SketchPolicy")
    found: dict[str, Param] = {}
    for name, value in given.items():
        known = DEFAULT_PARAMS.get(_OLDER.get(name, name))
        if known is None:
            meant = did_you_mean(name, DEFAULT_PARAMS)
            _log.warning("SketchPolicy: params has %r, which nothing reads%s", name, meant)
        elif isinstance(known, str):
            check.text(f"params[{name!r}]", value, known)
        else:
            check.number(f"params[{name!r}]", value)
        found[_OLDER.get(name, name)] = value
    return found
