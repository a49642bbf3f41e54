"""Descriptions of a problem in the format T1 of the FAIR auto-tuning community.

``{"ConfigurationSpace": {"TuningParameters": [{"Name", "Type", "Values"}], "Conditions":
[{"Expression", "Parameters"}]}, "KernelSpecification": {"KernelName", "ProblemSize", ...}}``.
Values and conditions are Python expressions as texts. The schema: ``T1/1.0.0/input-schema.json``
in github.com/KernelTuner/kernel_tuner, by github.com/odgaard/TuningSchema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from autotune.interchange.expressions import Expression
from autotune.interchange.foreign_files import (
    ForeignFileError,
    an_object,
    one_line,
    parse,
    read_text,
)
from autotune.record.paths import LogPath, log_path
from autotune.utils.check import shown


class Space(Protocol):
    """The space in which a template defines its knobs, as `autotune.get_config` returns it."""

    def define_knob(self, name: str, candidate: list[object]) -> object:
        """Add a knob with these values."""
        ...

    def multi_filter(self, filter: Callable[[object], object]) -> object:
        """Add a constraint."""
        ...


@dataclass(frozen=True)
class Problem:
    """The problem of a T1 file.

    Attributes:
        name: of the kernel.
        args: the size of the problem.
        knobs: the values of each tuning parameter.
        conditions: what a configuration must fulfil, over the names of the knobs.
        language: ``CUDA``, ``OpenCL`` or ``Vulkan``.
        kernel_file: where its source is, relative to the T1 file.
    """

    name: str
    args: tuple[object, ...]
    knobs: Mapping[str, Sequence[object]]
    conditions: tuple[Expression, ...]
    language: str
    kernel_file: str

    def define(self, config: Space) -> None:
        """Define the knobs and conditions in a template of yours.

        Example::

            problem = read_t1("convolution.json")

            @autotune.template(problem.name)
            def convolution(*size):
                problem.define(autotune.get_config())
        """
        for name, values in self.knobs.items():
            config.define_knob(name, list(values))
        for condition in self.conditions:
            config.multi_filter(_filter(condition, self.knobs))


def _filter(
    condition: Expression, knobs: Mapping[str, Sequence[object]]
) -> Callable[[Any], object]:
    asked = [name for name in knobs if name in condition.names]
    return lambda config: condition({name: config[name].val for name in asked})


def read_t1(path: LogPath) -> Problem:
    """Read the description of a problem.

    Raises:
        ForeignFileError: it cannot be read, or is no such file.
        ExpressionRefused: values or a condition are more than an expression of values.
    """
    where = log_path(path)
    return problem_of(parse(read_text(where), where), where)


def problem_of(data: object, where: Path) -> Problem:
    """Return the problem in the JSON of a description; see `read_t1`."""
    top = an_object(data, "a T1 file", where)
    space = an_object(top.get("ConfigurationSpace"), "'ConfigurationSpace'", where)
    kernel = an_object(top.get("KernelSpecification"), "'KernelSpecification'", where)
    knobs = dict(_knob(one, where) for one in _objects(space, "TuningParameters", where))
    if not knobs:
        raise ForeignFileError(f"{where}: 'TuningParameters' are none")
    conditions = tuple(
        Expression.parse(one.get("Expression")) for one in _objects(space, "Conditions", where)
    )
    for one in conditions:
        unknown = sorted(one.names - knobs.keys())
        if unknown:
            raise ForeignFileError(
                f"{where}: condition {one.text[:80]!r} is about {', '.join(map(shown, unknown))}, "
                "which are no tuning parameters"
            )
    size = kernel.get("ProblemSize", [])
    size = size if isinstance(size, list) else [size]
    return Problem(
        name=one_line(kernel.get("KernelName")),
        args=tuple(one for one in size if isinstance(one, (int, float, str))),
        knobs=knobs,
        conditions=conditions,
        language=one_line(kernel.get("Language")),
        kernel_file=one_line(kernel.get("KernelFile")),
    )


def _objects(of: Mapping[str, object], name: str, where: Path) -> list[Mapping[str, object]]:
    found = of.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ForeignFileError(f"{where}: expected {name!r} to be an array of objects")
    return found


def _knob(of: Mapping[str, object], where: Path) -> tuple[str, Sequence[object]]:
    name, values = of.get("Name"), of.get("Values")
    if not isinstance(name, str) or not name:
        raise ForeignFileError(f"{where}: a tuning parameter without a name")
    # The schema says a text; some write the array itself.
    listed = values if isinstance(values, list) else Expression.parse(values)({})
    if not isinstance(listed, list) or not listed:
        raise ForeignFileError(f"{where}: the values of {name!r} are no list: {shown(values)}")
    if not all(isinstance(value, (int, float, str)) for value in listed):
        raise ForeignFileError(f"{where}: the values of {name!r} are no numbers and no texts")
    return name, listed
