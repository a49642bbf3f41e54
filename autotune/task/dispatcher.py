"""The choice of a template's configuration by a stack of contexts, innermost first.

The stack is a context variable: a ``with`` is seen by the code inside it, in the same thread. A
thread or executor that must see it is given a copy of the context
(``contextvars.copy_context().run``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar, cast
from weakref import ref

from autotune.errors import TemplateError
from autotune.target import Target
from autotune.target.backends import part
from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.knobs import Knobs
from autotune.task.point_run import PointRun
from autotune.task.refusals import Attempt
from autotune.task.scope import GLOBAL_SCOPE
from autotune.task.template_config import TemplateConfig
from autotune.task.workload import Workload
from autotune.utils import environment
from autotune.utils.check import Check

logger = logging.getLogger("autotvm")

Config = Knobs | ConfigEntity

_stack: ContextVar[tuple[DispatchContext, ...]] = ContextVar("autotune_dispatch", default=())


D = TypeVar("D", bound="DispatchContext")
# Of the whole process, and entered, by what keeps none of them alive.
ContextsAround = tuple[int, tuple[tuple["ref[DispatchContext]", int], ...]]


@dataclass(frozen=True)
class Query:
    """What contexts are asked for, one after another.

    Attributes:
        target: the target; None if unknown.
        workload: name and arguments of the task; None for the template that is running.
        attempt: runs the requesting template with a recorded configuration.
        misses: why those that were asked have no answer, in words; they add to it.
    """

    target: Target | None
    workload: Workload | None
    attempt: Attempt | None = None
    misses: list[str] = field(default_factory=list)


class Spanned(Protocol):
    """A task, as far as it has a space."""

    @property
    def name(self) -> str:
        """The task's name."""

    @property
    def config_space(self) -> ConfigSpace:
        """Its knobs."""


class _Current:
    """Class attribute that gives the innermost context."""

    __slots__ = ()

    def __get__(self, instance: object, owner: type) -> DispatchContext:
        return (_ROOT, *_stack.get())[-1]


class DispatchContext:
    """A source of configurations, active inside ``with``.

    Subclasses define `_query_inside`. A context that has no answer passes the question on to the
    one around it; the outermost is a `FallbackContext`.
    """

    current: ClassVar[_Current] = _Current()
    # How often its answers have changed.
    revision = 0
    # Messages that were logged, so that each is logged once in a process.
    warning_messages: set[str] = set()  # noqa: RUF012 - AutoTVM's name for a process-wide set

    def query(
        self, target: Target | None, workload: Workload | None, attempt: Attempt | None = None
    ) -> Config:
        """Return the configuration for a workload on a target.

        Args:
            target: the target; None if unknown.
            workload: name and arguments of the task; None for the template that is running.
            attempt: runs the requesting template with a recorded configuration, so that records
                    that do not belong to it are skipped; without it records are not checked.

        Raises:
            FrozenError: in frozen mode, in which only the lock is asked: it has no configuration
                for the workload, or a different one.
        """
        if workload is not None and environment.frozen():
            return cast(Config, part("autotune.lock:pinned")(target, workload, attempt))
        query = Query(target, workload, attempt)
        for context in self._outwards():
            config = context._answer(query)
            if config is not None:
                return config
        raise AssertionError("the outermost context always answers")

    def known(
        self, target: Target | None, workload: Workload, attempt: Attempt | None = None
    ) -> Config | None:
        """Return the answer of `query`, but None in place of a default configuration.

        Contexts around a `FallbackContext` are not asked. In frozen mode only the lock is.
        """
        if environment.frozen():
            return cast("Config | None", part("autotune.lock:known")(target, workload))
        query = Query(target, workload, attempt)
        for context in self._outwards():
            if isinstance(context, FallbackContext):
                return None
            config = context._answer(query)
            if config is not None:
                return config
        return None

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Use ``cfg`` for this workload from now on.

        Raises:
            TemplateError: this kind of context holds nothing that could be updated.
        """
        raise TemplateError(f"{type(self).__name__} cannot be updated; enter another context")

    def explain_miss(self, target: Target | None, workload: Workload | None) -> str:
        """Return why there was no answer, in words for the user; may be empty."""
        return ""

    @contextmanager
    def behind_all(self) -> Iterator[None]:
        """Let this context answer inside ``with`` where none of those entered before has one."""
        before = _stack.set((self, *_stack.get()))
        try:
            yield
        finally:
            _stack.reset(before)

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        return None

    def _answer(self, query: Query) -> Config | None:
        """Return the configuration; or None, after adding the reason to its misses."""
        config = self._query_inside(query.target, query.workload)
        if config is None:
            query.misses.extend(filter(None, [self.explain_miss(query.target, query.workload)]))
        return config

    def _outwards(self) -> list[DispatchContext]:
        """Return this context and those around it, innermost first."""
        stack = (_ROOT, *_stack.get())
        around = stack[: stack.index(self) + 1] if self in stack else (*stack, self)
        return [*reversed(around[1:]), *reversed(_provided), around[0]]

    def __enter__(self: D) -> D:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _stack.set(_stack.get()[:-1])


class ApplyConfig(DispatchContext):
    """Give every template this configuration.

    A template that is running finds in `get_config` one run with it, however often it asks.
    """

    def __init__(self, config: Config) -> None:
        self._set(config)
        self.workload: Workload | None = None

    def _set(self, config: Config) -> None:
        check_config("ApplyConfig", "config", config)
        self.revision += 1
        self._config = config.point if isinstance(config, PointRun) else config
        self._begun = _begun(config)

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        self.workload = workload
        return self._begun if workload is None else self._config

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Give ``cfg`` instead from now on."""
        check_config("ApplyConfig.update", "cfg", cfg)
        self.workload = workload
        self._set(cfg)


class ApplyFixedConfig(DispatchContext):
    """Give each task the first configuration of its space, to choose between implementations.

    The configurations of the named tasks get a low cost and those of the others a high one, so
    that comparisons of implementations by cost prefer the named ones.

    Args:
        tasks: tasks with a `config_space`, identified by name.
        schedule_names: the names to prefer: one, or several.
    """

    PREFERRED_COST, OTHER_COST = 1e-6, 1e5

    def __init__(self, tasks: Sequence[Spanned], schedule_names: str | Sequence[str]) -> None:
        check = Check(TemplateError, "ApplyFixedConfig")
        expected = "a name or a list of names"
        names = [schedule_names] if isinstance(schedule_names, str) else schedule_names
        for name in check.sequence("schedule_names", names, expected):
            check.text("schedule_names", name)
        for task in check.sequence("tasks", tasks, "a list of tasks"):
            if not hasattr(task, "config_space"):
                check.refuse("tasks", "a list of tasks", task)
        self._schedule_names = names
        self._tasks = {task.name: task for task in tasks}
        self.workload: Workload | None = None

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        self.workload = workload
        task = self._tasks.get(workload[0]) if workload else None
        if task is None:
            return None
        first = task.config_space.get_next_index(-1)
        if first is None:
            return None
        config = task.config_space.get(first)
        preferred = task.name in self._schedule_names
        return config.with_cost(self.PREFERRED_COST if preferred else self.OTHER_COST)

    def explain_miss(self, target: Target | None, workload: Workload | None) -> str:
        """Name the tasks that are fixed."""
        return f"the fixed tasks are {', '.join(sorted(self._tasks)) or 'none'}."


class FallbackContext(DispatchContext):
    """Gives templates their default configuration, with a warning once per workload.

    One is always the outermost context. Inside ``with FallbackContext():`` the contexts around it
    are not asked, so templates run with their default configuration.
    """

    def __init__(self) -> None:
        self.memory: dict[tuple[str, Workload], Config] = {}

    def _answer(self, query: Query) -> Config | None:
        """Return a fallback configuration, the same each time for the same workload."""
        target, workload = query.target, query.workload
        if workload is None:  # get_config() outside any template: share nothing between callers
            return FallbackConfigEntity()
        key = (str(target), workload)
        if key not in self.memory:
            message = (
                f"Cannot find config for target={target}, workload={workload}. A fallback "
                f"configuration is used, which may bring great performance regression."
            )
            warn_once(" ".join([message, *query.misses]))
            self.memory[key] = FallbackConfigEntity()
        return self.memory[key]

    def clear_cache(self, target: Target | None, workload: Workload) -> None:
        """Forget the configuration of a workload, so that another can be made up."""
        self.memory.pop((str(target), workload), None)

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Give ``cfg`` for this workload from now on."""
        check_config("FallbackContext.update", "cfg", cfg)
        self.memory[(str(target), workload)] = cfg
        self.revision += 1


def check_config(owner: str, name: str, config: object) -> None:
    """Check that a value is a configuration before it is passed to a template."""
    if not isinstance(config, (ConfigEntity, ConfigSpace, PointRun, FallbackConfigEntity)):
        expected = "a configuration, such as task.default()"
        Check(TemplateError, owner).refuse(name, expected, config)


def _begun(config: Config) -> Config:
    """Return what a template sees of a configuration: of a point, a run with it."""
    return PointRun(config) if isinstance(config, ConfigEntity) else config


_ROOT = FallbackContext()
# Asked where no context that was entered has an answer, before one is made up; the last first.
_provided: list[DispatchContext] = []


def provide_last(context: DispatchContext) -> None:
    """Let a context answer in the whole process, behind all that are entered."""
    _provided.append(context)


def contexts_around() -> ContextsAround:
    """Return which contexts answer here, and how often they have changed."""
    entered = _stack.get()
    if not entered:
        return len(_provided), ()
    return len(_provided), tuple([(ref(each), each.revision) for each in entered])


def is_falling_back() -> bool:
    """Return whether a `FallbackContext` was entered, so that nothing tuned is asked for."""
    return any(isinstance(each, FallbackContext) for each in _stack.get())


def provided(target: Target | None, workload: Workload) -> Config | None:
    """Return the answer of the contexts of the whole process; None if there is none.

    They are not asked in frozen mode, nor inside a `FallbackContext`.
    """
    if environment.frozen() or is_falling_back():
        return None
    answers = (each._query_inside(target, workload) for each in reversed(_provided))
    return next((each for each in answers if each is not None), None)


def clear_fallback_cache(target: Target | None, workload: Workload) -> None:
    """Forget the made-up configuration of a workload, so that another can be made up."""
    _ROOT.clear_cache(target, workload)


def warn_once(message: str) -> None:
    """Log a warning the first time it comes up in this process, unless silenced."""
    if GLOBAL_SCOPE.silent or message in DispatchContext.warning_messages:
        return
    DispatchContext.warning_messages.add(message)
    logger.warning(message)


def get_config() -> TemplateConfig:
    """Return the configuration of the template that is running.

    While a task is created it is the `ConfigSpace` that collects the knobs; when a configuration
    is realised it is a run with it (`PointRun`); without a tuned one it is a
    `FallbackConfigEntity`.

    Example, within a template::

        cfg = autotune.get_config()
        cfg.define_knob("BLOCK", [64, 128, 256])
        block = cfg["BLOCK"].val
    """
    found = _begun(DispatchContext.current.query(Target.current(), None))
    return cast(TemplateConfig, found)
