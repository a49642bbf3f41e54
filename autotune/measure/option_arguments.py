"""Checks of the arguments ``builder=`` and ``runner=`` of functions that measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from autotune.errors import MeasureError
from autotune.measure.build.builder import LocalBuilder
from autotune.measure.interfaces import Builder, Runner
from autotune.measure.run.runner import LocalRunner


def chosen_builder(owner: str, choice: object, named: bool = True) -> Builder:
    """Return a builder; ``"local"`` means the default one, if names are accepted.

    Raises:
        MeasureError: the argument is not a builder.
    """
    builder = LocalBuilder() if named and choice == "local" else choice
    return builder if isinstance(builder, Builder) else _refuse(owner, "builder", choice, named)


def chosen_runner(owner: str, choice: object, named: bool = True) -> Runner:
    """Return a runner; ``"local"`` means the default one, if names are accepted.

    Raises:
        MeasureError: the argument is not a runner.
    """
    runner = LocalRunner() if named and choice == "local" else choice
    return runner if isinstance(runner, Runner) else _refuse(owner, "runner", choice, named)


def both_parts(builder: object, runner: object) -> tuple[object, object]:
    """Return builder and runner where the first argument may be a measure option, which has both.

    The second is its default then.
    """
    if isinstance(builder, Mapping) and runner == "local":
        return builder.get("builder"), builder.get("runner")
    return builder, runner


def _refuse(owner: str, name: str, choice: object, named: bool) -> NoReturn:
    if named:
        raise MeasureError(
            f"{owner}: {name} must be a {name.capitalize()} or 'local', got {choice!r}"
        )
    raise MeasureError(
        f"{owner}: {name!r} must be a {name.capitalize()}, got {choice!r}; make the options with "
        "measure_option(builder=LocalBuilder(), runner=LocalRunner()), or give a Session"
    )
