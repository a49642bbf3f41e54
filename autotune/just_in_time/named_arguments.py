"""Arguments of a call that are given by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from autotune.errors import TunerError


def in_order(
    owner: str,
    function: Callable[..., object],
    args: tuple[object, ...],
    named: Mapping[str, object],
) -> tuple[object, ...]:
    """Return all arguments of a call in the order of the function that names them.

    Args:
        owner: the name of the function for messages.
        function: the user's; its parameters are those of the kernel.
        args: those given by position.
        named: those given by name.

    Raises:
        TunerError: they are not what the function takes.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise TunerError(f"{owner}{signature}: {error}") from error
    if bound.kwargs:
        only = ", ".join(bound.kwargs)
        raise TunerError(
            f"{owner}{signature}: arguments of a kernel have an order, and {only} can be given by "
            "name only; make it an ordinary parameter"
        )
    return bound.args
