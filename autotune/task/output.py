"""What a template returns: a source kernel, or a schedule and its tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autotune.errors import TemplateError
from autotune.workload import NO_REFERENCE, Called, Computed, Reference

# Plain data that a template returns only by mistake.
_NO_KERNEL = (bool, int, float, str, bytes, dict, set, tuple, list)


def check_output(name: str, output: object) -> None:
    """Refuse what is certainly no kernel; all else is judged when it is lowered.

    None passes: a template may define knobs only, for a runner that builds nothing.

    Raises:
        TemplateError: it is no kernel.
    """
    pair = output if isinstance(output, (tuple, list)) else (output, ())
    if len(pair) != 2 or isinstance(pair[0], _NO_KERNEL) or not isinstance(pair[1], Iterable):
        raise TemplateError(
            f"template {name!r}: expected it to return a SourceKernel or (schedule, [tensors]), "
            f"got {output!r}"
        )


def output_reference(output: object) -> Reference:
    """Return the reference that an output has."""
    if isinstance(output, (tuple, list)):
        tensors = output_tensors(output)
        return Computed(tensors) if tensors else NO_REFERENCE
    function = getattr(output, "reference", None)
    return NO_REFERENCE if function is None else Called(function)


def output_tensors(output: object) -> tuple[Any, ...]:
    """Return the tensors that a template gives with a schedule."""
    return tuple(output[1]) if isinstance(output, (tuple, list)) and len(output) == 2 else ()


def output_schedule(output: object) -> object:
    """Return the schedule, or the source kernel."""
    return output[0] if isinstance(output, (tuple, list)) and output else output
