"""The offers for a call: the templates that may compute it, and how they take its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NoReturn, Protocol, cast

import numpy as np

from autotune.driver import kernel_of
from autotune.errors import KernelError, TunerError
from autotune.just_in_time.strided_arrays import (
    contiguous_copy,
    copy_back,
    is_torch,
    refuse_strided,
)
from autotune.kernel import Argument
from autotune.runtime import NDArray
from autotune.runtime.arrays.array import from_dlpack
from autotune.runtime.program import view
from autotune.target import Target
from autotune.target.backends import part
from autotune.task import DispatchContext, FallbackConfigEntity, Task, create
from autotune.task.dispatcher import Config, warn_once
from autotune.task.template import Call
from autotune.utils.check import Check


@dataclass(frozen=True)
class CallOffer:
    """A template's offer to compute what a call asks for.

    Attributes:
        task: the template with its arguments.
        operands: numbers of the call's arguments that its kernel takes, in order; None if it takes
            all of them unchanged.
    """

    task: Task
    operands: tuple[int, ...] | None = None

    def known(self, context: DispatchContext) -> Config | None:
        """Return the configuration that a context has for it as the template is now, or None."""
        task = self.task
        found = context.known(task.target, task.workload, Call(task.func, task.args).attempt)
        if found is None and context.known(task.target, task.workload) is not None:
            warn_once(
                f"{task.name}{task.args}: what was tuned is not in the space of the template as "
                "it is now, and is not used: tune again"
            )
        return found

    def dispatched(self) -> object:
        """Run the template with the configuration that the contexts around have for it."""
        task = self.task
        call = Call(task.func, task.args)
        config = DispatchContext.current.query(task.target, task.workload, call.attempt)
        return call.run(config)


@dataclass(frozen=True)
class CallRequest:
    """The request of a call.

    Attributes:
        title: it in words.
        offers: the templates that compute it, the first choice first.
        rule: makes the kernel where no template does; None where there is none either.
        check: takes the arguments of a call, and raises where no kernel may have them.
        shapes: of the arguments of the call, where they are known.
    """

    title: str
    offers: tuple[CallOffer, ...]
    rule: Callable[[], object] | None = None
    check: Callable[[Sequence[object]], None] | None = None
    shapes: tuple[tuple[int, ...], ...] = ()

    def arrangement(self, offer: CallOffer, taken: Sequence[Argument]) -> tuple[int, ...] | None:
        """Return the operands of an offer; None if its kernel takes the arguments as they are."""
        as_they_are = offer.operands == tuple(range(len(self.shapes)))
        seen = tuple([each.shape for each in taken])
        return None if as_they_are and seen == self.shapes else offer.operands


class Source(Protocol):
    """Says what calls ask for."""

    @property
    def name(self) -> str:
        """The name of the template or the operator."""
        ...

    def asked(self, given: object, args: Sequence[object], target: Target) -> CallRequest:
        """Return what a call requests; ``given`` is what the user's function returned for it."""
        ...

    def written(self, given: object, args: Sequence[object], target: Target) -> tuple[int, ...]:
        """Return the numbers of the arguments that a call writes."""
        ...


@dataclass(frozen=True)
class OfTemplate:
    """One template; the user's function gives its arguments."""

    owner: str
    template: Callable[..., object]

    @property
    def name(self) -> str:
        """The name of the task."""
        return str(getattr(self.template, "task_name", self.template))

    def asked(self, given: object, args: Sequence[object], target: Target) -> CallRequest:
        """Return the task."""
        check = Check(TunerError, self.owner)
        workload = tuple(check.sequence("key(...)", given, "arguments of the template"))
        try:
            task = create(self.template, workload, target=target)
        except KernelError as error:
            raise TunerError(f"{self.owner}: {self.name}{workload}: {error}") from error
        return CallRequest(f"{self.name}{workload}", (CallOffer(task),))

    def written(self, given: object, args: Sequence[object], target: Target) -> tuple[int, ...]:
        """Return those that the template's kernel writes."""
        (offer,) = self.asked(given, args, target).offers
        kernel = kernel_of(offer.task.instantiate(FallbackConfigEntity()), target)
        written = {each.name for each in kernel.outputs}
        return tuple(i for i, each in enumerate(kernel.args) if each.name in written)


@dataclass(frozen=True)
class Arranged:
    """The arguments of a call as its kernel takes them.

    Attributes:
        arrays: in the kernel's order, in the shapes in which it sees them.
        finish: copy results to where the caller wants them; called after the run.
    """

    arrays: Sequence[object]
    finish: Sequence[Callable[[], object]]


def arranged(
    args: Sequence[object], operands: Sequence[int], taken: Sequence[Argument]
) -> Arranged:
    """Arrange the arguments of a call for a kernel.

    Arrays of the host whose elements lie so that they cannot be seen in another shape are copied,
    and back if they are written, as `bind` does where the kernel sees their own shape.

    Args:
        args: of the call.
        operands: numbers of those that the kernel takes, in order.
        taken: the arguments of the kernel.

    Raises:
        KernelError: an array on a device is not contiguous, or one that is written is read-only.
    """
    arrays: list[object] = []
    finish: list[Callable[[], object]] = []
    for number, argument in zip(operands, taken, strict=True):
        value: Any = args[number]
        seen = _seen_as(value, argument.shape)
        if seen is None:
            refuse_strided(f"argument {number}", value, argument.role != "in")
            seen = contiguous_copy(value, argument.shape)
            if argument.role != "in":
                finish.append(partial(copy_back, value, seen))
        arrays.append(seen)
    return Arranged(arrays, finish)


def _seen_as(value: Any, shape: tuple[int, ...]) -> object | None:
    """Return an array in another shape of as many elements in the same memory; None if it cannot.

    Raises:
        KernelError: it does not lend its memory.
    """
    if tuple(value.shape) == shape:
        return cast(object, value)
    if isinstance(value, NDArray):
        return view(value, 0, shape, value.dtype)
    try:
        if isinstance(value, np.ndarray):
            return _reshaped(value, shape)
        if is_torch(value):
            return cast(object, value.view(shape))
    except (ValueError, RuntimeError, AttributeError):
        return None
    return _seen_as(from_dlpack(value), shape)


@cache
def _reshapes() -> bool:
    """Return whether numpy can be told not to copy in a reshape, as since version 2.1."""
    return tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)


def _reshaped(value: Any, shape: tuple[int, ...]) -> object:
    seen: object
    if _reshapes():
        seen = np.reshape(value, shape, copy=False)
    else:
        seen = value.view()
        seen.shape = shape  # type: ignore[attr-defined]
    return seen


def source_of(owner: str, asked: object) -> Source:
    """Return the source of kernels that a template or the name of an operator denotes.

    Raises:
        TunerError: the argument is neither.
    """
    if isinstance(asked, str):
        # Operators are known by what networks are made of, which templates alone do not need.
        made: Source = part("autotune.just_in_time.operators:OfOperator")(owner, asked)
        return made
    if getattr(asked, "task_name", None) is None:
        refuse_source(asked)
    return OfTemplate(owner, cast("Callable[..., object]", asked))


def refuse_source(asked: object, meant: str = "") -> NoReturn:
    """Raise: it is neither a template nor an operator; ``meant`` says which it may be."""
    expected = "a function decorated with @autotune.template('name'), or the name of an operator"
    Check(TunerError, "jit").refuse("template", f"{expected} such as 'nn.conv2d'", asked, meant)
