"""A hash of the kernel that a template made of a configuration; a record is valid for it alone.

The hash must be equal on every machine and in every process, and must not change when a new
version of this package generates other code for the same schedule. So a hand-written kernel is
identified by its text without comments and layout, its arguments, launches and flags, and the
computation of its reference. A kernel of tensor expressions is identified by its computes and the
steps of its schedule, not by its generated text, which changes with each improvement of code
generation.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass

from autotune.driver.reference_text import identity
from autotune.driver.step_rows import binary_rows
from autotune.kernel import Argument, Kernel, KernelCall, SourceKernel, Workspace
from autotune.kernel.comments import without_comments
from autotune.runtime.compile.user_headers import header_contents
from autotune.target import Target
from autotune.te import Schedule, Tensor
from autotune.te.dag import dag_text
from autotune.te.intrin_rules import Rule, rules_for
from autotune.te.tensor import PlaceholderOp

# Hexadecimal digits; of a thousand million kernels two have the same hash in one case of 40.
LENGTH = 16
_SHARED = {Argument, KernelCall, Workspace}


def kernel_hash(output: object, target: Target, rendered: Kernel | None = None) -> str | None:
    """Return the hash of what a template returned; None if that does not define a kernel.

    Args:
        output: a `SourceKernel`, or a schedule and its arguments.
        target: the target, of which only the language matters.
        rendered: the result of `kernel_of` for this output and target, if it is known already.

    Raises:
        KernelError: the source cannot be rendered.
    """
    return next(kernel_hashes(output, target, rendered), None)


def kernel_hashes(output: object, target: Target, rendered: Kernel | None = None) -> Iterator[str]:
    """Yield the hash of what a template returned, then others that logs may have of the same.

    Logs from before November 2026 count the comments and the layout of a hand-written kernel, and
    the text of its reference as one version of Python writes it.
    """
    match output:
        case SourceKernel():
            kernel = rendered or output.kernel(target.language)
            yield source_hash(kernel, output.reference)
            yield source_hash(kernel, output.reference, comments=True)
        case Kernel():
            yield source_hash(output, None)
            yield source_hash(output, None, comments=True)
        case (Schedule() as schedule, [*args]):
            yield schedule_hash(schedule, args, rules_for(target.language))


def source_hash(
    kernel: Kernel, reference: Callable[..., object] | None, comments: bool = False
) -> str:
    """Return the hash of a hand-written kernel.

    Args:
        kernel: the kernel that is compiled.
        reference: computes the expected answer.
        comments: whether comments and layout count, in the text and in the headers, and the
            reference as this version of Python prints it, as in old records.
    """
    source = kernel.source if comments else without_comments(kernel.source)
    headers, flags = header_contents(source, kernel.flags, comments)
    parts = [_json_of(part) for part in (kernel.args, kernel.calls, kernel.workspace)]
    named = map(json.dumps, (kernel.name, kernel.language))
    others = json.dumps([flags, headers, identity(reference, comments)])[1:-1]
    return _digest([f"[{', '.join([*named, *parts, others])}]", source])


def schedule_hash(
    schedule: Schedule, args: Iterable[object], rules: Mapping[str, Rule] | None = None
) -> str:
    """Return the hash of what is computed, in which order the arguments come, and how.

    Args:
        schedule: the schedule.
        args: the arguments.
        rules: of a script, for functions by name; those count that the computation calls.
    """
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    computes = dag_text(
        [tensor.op for tensor in tensors if not isinstance(tensor.op, PlaceholderOp)]
    )
    names = [[tensor.name, list(map(str, tensor.shape)), tensor.dtype] for tensor in tensors]
    steps = binary_rows(schedule)
    called = [
        f"{name}: {identity(rule)}"
        for name, rule in sorted((rules or {}).items())
        if re.search(rf"\b{re.escape(name)}\b", computes)
    ]
    return _digest([json.dumps([names, steps], default=str), computes, *called])


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:LENGTH]


def _json_of(part: tuple[object, ...]) -> str:
    """Return part of a kernel as JSON; trials of one workload share most parts of theirs."""
    # Of these, which hold texts and whole numbers only, equal ones have equal JSON.
    return _json_once(part) if {*map(type, part)} <= _SHARED else json.dumps(_plain(part))


@functools.lru_cache(maxsize=1024)
def _json_once(part: tuple[object, ...]) -> str:
    return json.dumps(_plain(part))


def _plain(value: object) -> object:
    """Return frozen data for JSON, without fields at their default: new ones change no hash."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    kind: type = type(value)
    known = _fields(kind)
    if known is None:
        return str(value)
    given = [(name, getattr(value, name), default) for name, default in known]
    kept = {name: _plain(v) for name, v, default in given if default is MISSING or v != default}
    return [kind.__name__, kept]


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, object], ...] | None:
    """Return the fields of a dataclass with their defaults; None of any other class."""
    if not is_dataclass(kind):
        return None
    return tuple([(each.name, each.default) for each in fields(kind)])
