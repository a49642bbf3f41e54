"""The registry of templates, and how one is run."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeVar, overload

from autotune.errors import InstantiationError, SpaceError, TemplateError
from autotune.target import Target
from autotune.target.backends import part
from autotune.task.collecting import collected
from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.dispatcher import ApplyConfig, Config, DispatchContext
from autotune.task.errors import WorkloadError
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.kinds import Entity
from autotune.task.knobs import Knobs
from autotune.task.point_run import PointRun, ReplayedRun
from autotune.task.workload import args_to_workload
from autotune.utils.check import Check, shown
from autotune.utils.names import did_you_mean

Function = Callable[..., object]
F = TypeVar("F", bound=Function)

_CHECK = Check(TemplateError, "template")


@dataclass
class TaskTemplate:
    """The code of a task: one customized function, a compute and a schedule half, or both.

    Arguments that begin with a tensor are those of an operator: the halves take them where there
    are both, else `foperator`. All others are the customized function's.

    Attributes:
        fcustomized: takes the arguments, returns a schedule and its tensors, or a source kernel.
        fcompute: takes a configuration and the arguments, returns output tensors.
        fschedule: takes a configuration and the output tensors, returns a schedule.
        foperator: takes an operator's arguments, tensors first; returns what `fcustomized` does.
    """

    fcustomized: Function | None = None
    fcompute: Function | None = None
    fschedule: Function | None = None
    foperator: Function | None = None


TASK_TABLE: dict[str, TaskTemplate] = {}
# Modules with templates of operators, which are imported when one is asked for.
_LIBRARIES: list[str] = []


def offer_library(module: str) -> None:
    """Let a module register its templates when a task of an operator has none.

    Args:
        module: full name; tasks of operators are named with a kind of target, ``dense.cuda``.
    """
    if module not in _LIBRARIES:
        _LIBRARIES.append(module)


def find_template(name: str) -> TaskTemplate:
    """Return a registered template.

    Raises:
        WorkloadError: no template of this name was registered.
    """
    if name not in TASK_TABLE and "." in name:
        for module in _LIBRARIES:
            import_module(module)
    if name not in TASK_TABLE:
        near = did_you_mean(name, TASK_TABLE)
        ready = (
            "" if "autotune.templates" in sys.modules else "; autotune.templates has some ready"
        )
        raise WorkloadError(
            f"no template is registered for task {shown(name)}{near}; import the module "
            f"that defines it (a command takes its FILE.py, or --module NAME){ready}"
        )
    return TASK_TABLE[name]


def may_replace(old: object, new: object) -> bool:
    """Return whether a template may take the place of another of its name, unasked.

    A notebook or a prompt runs a definition again after each edit. Its functions are of
    ``__main__``; in a script and in modules, a second template of a name is a mistake.
    """
    homes = {getattr(function, "__module__", None) for function in (old, new)}
    file = getattr(sys.modules["__main__"], "__file__", None)
    interactive = hasattr(sys, "ps1") or not os.path.isfile(file or "")
    return homes == {"__main__"} and interactive


def register(name: str, func: Function | None = None, override: bool = False) -> Any:
    """Register the function of a task, without wrapping it.

    Args:
        name: the task's name.
        func: the function; without it a decorator is returned.
        override: whether another function of the name may be replaced; at a prompt and in a
            notebook one of ``__main__`` always may.

    Raises:
        TemplateError: the name is taken.
    """

    def decorate(function: Function) -> Function:
        entry = TASK_TABLE.get(name, TaskTemplate())
        taken = entry.fcustomized is not None and not may_replace(entry.fcustomized, function)
        if taken and not override:
            raise TemplateError(
                f"Customized func is already registered for task {name!r} (by {_where(entry)}); "
                f"choose another name, or delete TASK_TABLE[{name!r}] first"
            )
        TASK_TABLE[name] = replace(entry, fcustomized=function)
        return function

    return decorate if func is None else decorate(func)


def named(task_name: str | Function) -> str:
    """Return the name of a template; a plain function is registered by its own name.

    Raises:
        TemplateError: it is none, and cannot be one; or its name is taken.
    """
    name = task_name if isinstance(task_name, str) else getattr(task_name, "task_name", None)
    if name is not None:
        return str(name)
    if not inspect.isfunction(task_name) or not task_name.__name__.isidentifier():
        raise TemplateError(
            f"create: {task_name!r} is no template; task_name must be the name of one, or a "
            f"function that has a name"
        )
    entry = TASK_TABLE.get(task_name.__name__)
    if entry is None or entry.fcustomized is not task_name:
        register(task_name.__name__, task_name)
    return task_name.__name__


def _one_line(argument: str, name: object, such_as: str) -> str:
    """Return the name of a task: no log holds one with a control character, such as a newline."""
    text = _CHECK.text(argument, name, such_as)
    if not text.isprintable():
        _CHECK.refuse(argument, "a printable text of one line", name)
    return text


def register_operator(name: str) -> Callable[[F], F]:
    """Make a function the template of a task whose arguments begin with tensors.

    So TVM's tasks of operators have them. Tensors come as placeholders. A name may have another
    function for arguments that are plain numbers, see `template`.

        @register_operator("conv2d_nchw.cuda")
        def conv2d(data, kernel, strides, padding, dilation, out_dtype): ...

    Raises:
        TemplateError: the name is taken.
    """
    _one_line("name", name, "conv2d_nchw.cuda")

    def decorate(function: F) -> F:
        _CHECK.function("func", function)
        entry = TASK_TABLE.get(name, TaskTemplate())
        if entry.foperator is not None and not may_replace(entry.foperator, function):
            raise TemplateError(
                f"task {name!r} has a function for tensors already; choose another name, or "
                f"delete TASK_TABLE[{name!r}] first"
            )
        TASK_TABLE[name] = replace(entry, foperator=function)
        return function

    return decorate


@overload
def template(task_name: str, func: None = None) -> Callable[[F], F]: ...
@overload
def template(task_name: str, func: F) -> F: ...
@overload
def template(task_name: F) -> F: ...
def template(task_name: str | Function, func: Function | None = None) -> Any:
    """Make a function a template: decorate it with ``@template("name")``.

    The function defines knobs on `get_config()` and returns ``(schedule, [tensors])`` or a
    `SourceKernel`. Called directly, it runs with the configuration that the contexts around it
    hold for its arguments, so a tuned log applies by itself. A bare ``@template`` uses the
    function's name. In a notebook, running its cell again replaces it.

    Args:
        task_name: by which `create` and logs know it; or the function itself, if bare.
        func: the function, where this is called instead of used as a decorator.

    Raises:
        TemplateError: the name is taken, or none that a log can hold.

    Example::

        @autotune.template("scale")
        def scale(n):
            autotune.get_config().define_knob("BLOCK", [64, 128, 256])
            ...
    """
    if not isinstance(task_name, str) and callable(task_name):
        return template(getattr(task_name, "__name__", ""), task_name)
    name = _one_line("task_name", task_name, "my_gemm")

    def decorate(function: Function) -> Function:
        _CHECK.function("func", function)
        register(name, function)
        parameters = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*args: object, **kwargs: object) -> object:
            plain = _positional(name, parameters, args, kwargs)
            target = Target.current()
            workload = args_to_workload(plain, name)
            call = Call(function, plain)
            return call.run(DispatchContext.current.query(target, workload, call.attempt))

        wrapper.task_name = name  # type: ignore[attr-defined]
        return wrapper

    return decorate if func is None else decorate(func)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run of a template.

    Attributes:
        output: what it returned.
        knobs: what it saw, with all that it has said of it: operations, bytes, errors.
    """

    output: Any
    knobs: Knobs


class Call:
    """One call of a template: with these arguments, for the target that is current.

    Args:
        function: the template.
        args: its arguments.
        space: its knobs for these arguments, where they were collected before.
    """

    def __init__(
        self, function: Function, args: Sequence[object], space: ConfigSpace | None = None
    ) -> None:
        self._function = function
        self._args = args
        self._space = space
        self._attempted: tuple[ConfigEntity, Outcome] | None = None

    @property
    def space(self) -> ConfigSpace:
        """The knobs; collected when they are first asked for."""
        if self._space is None:
            self._space, _ = collected(self._run)
        return self._space

    def run(self, config: Config) -> object:
        """Run the template with one configuration, and return what it returns.

        Raises:
            SpaceError: the configuration is not one that the template offers.
        """
        return self.outcome(config).output

    def outcome(self, config: Config) -> Outcome:
        """Run the template with one configuration.

        Raises:
            SpaceError: the configuration is not one that the template offers.
        """
        point = config.point if isinstance(config, PointRun) else config
        if isinstance(point, FallbackConfigEntity):
            return self._untuned(point)
        if not isinstance(point, ConfigEntity):
            return Outcome(self._run(point), point)
        if self._attempted is not None and self._attempted[0] is point:
            return self._attempted[1]
        if point.space is not None and point.space is self._space:
            run = PointRun(point)
            return Outcome(self._run(run), run)
        replayed = ReplayedRun(point)
        try:
            output = self._run(replayed)
        except SpaceError:
            raise
        except Exception:
            # A point that its filters reject may be more than a template can bear.
            replayed.check(lambda: self.space)
            raise
        replayed.check(lambda: self.space)
        return Outcome(output, replayed)

    def _untuned(self, config: FallbackConfigEntity) -> Outcome:
        """Run the template untuned: with its own choice, or with the best by an estimate."""
        output = self._run(config)
        target = Target.current()
        if config.decided or (target is None and not config.has_constraints):
            return Outcome(output, config)
        first = {name: config[name] for name in config}
        best = self.space.untuned(lambda: self._chosen(output, target, first))
        if best is None:
            return Outcome(output, config)
        config.decide(best.recorded)
        return Outcome(self._run(config), config)

    def _chosen(
        self, output: object, target: Target | None, first: Mapping[str, Entity]
    ) -> ConfigEntity | None:
        """Return the best point by an estimate, or one in place of one that filters reject."""
        best = None if target is None else self._estimated(output, target)
        if best is not None or self.space.point_of(first) is not None:
            return best
        return self.space.first_valid()

    def _estimated(self, output: object, target: Target) -> ConfigEntity | None:
        search = part("autotune.driver.untuned:best_untuned")
        best: ConfigEntity | None = search(self.space, self._valid, output, target)
        return best

    def _valid(self, point: ConfigEntity) -> object:
        """Run the template with a point of its space.

        Raises:
            InstantiationError: the template declares it impossible.
        """
        outcome = self.outcome(point)
        if not outcome.knobs.valid():
            raise InstantiationError("; ".join(outcome.knobs.errors))
        return outcome.output

    def _run(self, config: Config) -> object:
        with ApplyConfig(config):
            return self._function(*self._args)

    def attempt(self, config: ConfigEntity) -> object:
        """Run the template with a recorded configuration, and keep what it returned for `run`.

        Raises:
            InstantiationError: the template declares the configuration impossible.
            SpaceError and others: what the template, or the search for its choices, raises.
        """
        outcome = self.outcome(config)
        if not outcome.knobs.valid():
            raise InstantiationError("; ".join(outcome.knobs.errors))
        self._attempted = (config, outcome)
        return outcome.output


def _positional(
    name: str, parameters: inspect.Signature, args: Sequence[object], kwargs: dict[str, object]
) -> tuple[object, ...]:
    """Return the arguments by position, as in workload keys."""
    if not kwargs:
        return tuple(args)
    try:
        bound = parameters.bind(*args, **kwargs)
    except TypeError as error:
        raise TemplateError(f"template {name!r}: {error}") from error
    if bound.kwargs:  # an earlier argument was left to its default
        bound.apply_defaults()
    if bound.kwargs:
        raise TemplateError(
            f"template {name!r}: keyword-only arguments cannot stand in a workload: "
            f"{', '.join(bound.kwargs)}"
        )
    return bound.args


def _where(entry: TaskTemplate) -> str:
    function = entry.fcustomized
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '?')}"
