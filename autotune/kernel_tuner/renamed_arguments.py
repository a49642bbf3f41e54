"""Arguments that Kernel Tuner's functions had in other versions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from autotune.errors import TunerError
from autotune.utils.names import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

# Changed nothing that counts here: how processes were spread, which local search was taken.
_WITHOUT_EFFECT = frozenset(
    ["method", "num_threads", "parallel_mode", "runner_mode", "times", "use_noodles"]
)  # fmt: skip
_AROUND = '; write `with autotune.Target("cuda -emulate"):` around the call, as for any target'


def takes_older_names(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function accept the arguments of other versions of Kernel Tuner by name."""
    known = inspect.signature(function).parameters
    what = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        given: dict[str, Any] = options
        for older, name in (
            ("kernel_string", "kernel_source"),
            ("kernel_source", "kernel_string"),
        ):
            if older in given and older not in known:
                given[name] = given.pop(older)
        if "sample_fraction" in given and "strategy" in known:
            fraction = given.pop("sample_fraction")
            if fraction:
                given.setdefault("strategy", "random_sample")
                more = given.get("strategy_options") or {}
                given["strategy_options"] = {"fraction": fraction, **more}
        for name in list(given):
            if name in known:
                continue
            if name not in _WITHOUT_EFFECT:
                hint = _AROUND if name == "target" else did_you_mean(name, known)
                raise TunerError(f"{what}: there is no argument {name!r}{hint}")
            del given[name]
        return function(*args, **given)

    return called
