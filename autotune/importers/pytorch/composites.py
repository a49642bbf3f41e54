"""Takes programs apart without what torch does for hundreds of operators that none of them has.

Of composite operators, which torch itself writes as others, `ExportedProgram.run_decompositions`
lists all of all libraries, once for each library, and then has a function of Python stand for each
in twelve dispatch tables - also for those that are written as they always are. That is two thirds
of the time in which a small model is read. Here they are listed once, and tables are only changed
for those that stay whole or are written in another way.

Both are private functions of torch: where they are not there, or are called in another way, as
they are before torch 2.6, torch does what it does.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autotune.errors import GraphError
from autotune.utils.lazy_torch import torch

_lock = threading.Lock()
# What undoes the changes, for each caller that is inside; the first to come makes them.
_inside: list[Callable[[], None]] = []


@contextmanager
def few_composites_overridden() -> Iterator[None]:
    """Have torch list composite operators once, and override only those that are not as always.

    Threads may be inside at the same time, and others export meanwhile.
    """
    pytorch = torch("importers", GraphError)
    listing, overriding = pytorch._export.utils, pytorch.export.exported_program
    with _lock:
        undo = _inside[0] if _inside else _changed(listing, overriding)
        _inside.append(undo)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:
                undo()


def _changed(listing: Any, overriding: Any) -> Callable[[], None]:
    """Change torch's two functions where it has them; return what puts them back."""
    names = ((listing, "_materialize_cpp_cia_ops"), (overriding, _OVERRIDE))
    found = [(module, name, getattr(module, name, None)) for module, name in names]
    before = [(module, name, own) for module, name, own in found if callable(own)]
    for module, name, own in before:
        setattr(module, name, _overridden(own) if name == _OVERRIDE else _once(own))

    def undo() -> None:
        for module, name, own in before:
            setattr(module, name, own)

    return undo


_OVERRIDE = "_override_composite_implicit_decomp"


def _once(own: Callable[[], None]) -> Callable[[], None]:
    """Return a function that lists operators where it is called first, and then no more."""
    return functools.cache(own)


def _overridden(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch's context manager without the operators that are written as they always are."""

    @functools.wraps(own)
    def few(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], dict) and not kwargs:
            return own({each: how for each, how in args[0].items() if not _as_always(how)})
        return own(*args, **kwargs)

    return few


def _as_always(how: Any) -> bool:
    """Return whether an operator's function calls what torch would call without it."""
    plain = isinstance(how, functools.partial) and not how.args
    return plain and getattr(how.func, "__name__", "") == "_special_op_to_decompose_cia"
