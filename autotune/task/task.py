"""A task: one template with its arguments, on a target."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from math import prod
from typing import Any

from autotune.errors import InstantiationError, SpaceError, TemplateError
from autotune.target import Target
from autotune.task.collecting import collected
from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.dispatcher import (
    ApplyConfig,
    ApplyFixedConfig,
    Config,
    DispatchContext,
    FallbackContext,
    get_config,
)
from autotune.task.errors import WorkloadError
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.json_form import plain
from autotune.task.knobs import Knobs
from autotune.task.membership import check_index
from autotune.task.output import (
    check_output,
    output_reference,
    output_schedule,
    output_tensors,
)
from autotune.task.template import (
    TASK_TABLE,
    Call,
    Function,
    Outcome,
    TaskTemplate,
    find_template,
    named,
    register,
    template,
)
from autotune.task.topi_integration import (
    deserialize_args,
    function_of,
    register_topi_compute,
    register_topi_schedule,
)
from autotune.task.workload import (
    Workload,
    args_to_workload,
    serialize_args,
)
from autotune.te import FlopError as FlopCalculationError
from autotune.te import NoArithmetic, Schedule, compute_bytes, compute_flop
from autotune.te.out_of_bounds_reads import warn_of_out_of_bounds_reads
from autotune.utils.check import shown
from autotune.workload import Called, Realisation

# Examples at most, and indices among which they are looked for.
_EXAMPLES, _LOOKED_AT = 8, 2**14


class Task:
    """A template's name, its arguments and a target; all else follows from these.

    The template is looked up when it is first needed, so the tasks of a log can be held without
    the code that made them.

    Attributes:
        name: the template's name.
        args: its arguments, as plain values.
        kwargs: always empty; AutoTVM's logs have a place for it.
        target: what kernels are built for; None only for a task read from a workload alone.
        target_host: ignored by code generation, kept for logs.
    """

    def __init__(
        self,
        name: str,
        args: Sequence[object],
        target: str | Target | None = None,
        target_host: str | Target | None = None,
    ) -> None:
        self.name = name
        self.args = serialize_args(args)
        self.kwargs: dict[str, object] = {}
        self.target = _target(target)
        self.target_host = _target(target_host)

    @property
    def key(self) -> str:
        """The name and the arguments as text, the same in every process."""
        return json.dumps([self.name, self.args], default=plain)

    @property
    def workload(self) -> Workload:
        """The key that configurations are found by."""
        return (self.name, *self.args)

    @property
    def func(self) -> Function:
        """The template's function.

        Raises:
            WorkloadError: no template of this name was registered.
        """
        return function_of(find_template(self.name), self.name, self.args)

    @cached_property
    def config_space(self) -> ConfigSpace:
        """The knobs of the template for these arguments."""
        return self._collect[0]

    @cached_property
    def flop(self) -> float:
        """Floating-point operations: what the template says, else those of its schedule.

        0 when the template of a source kernel does not say, and where a schedule has none.

        Raises:
            FlopError: the operations of the schedule cannot be counted.
        """
        return self._collect[1]

    @cached_property
    def bytes(self) -> float:
        """Bytes that must be moved at least: what the template says, else those of its computes.

        Each argument of a schedule counts once (see `te.compute_bytes`). 0 when the template of
        a source kernel does not say.
        """
        return self._collect[2]

    @cached_property
    def _collect(self) -> tuple[ConfigSpace, float, float]:
        """The space, the operations and the bytes."""
        with self._on_target():
            space, output = collected(self._called_with)
        schedule = output_schedule(output)
        space.code_hash = getattr(schedule, "code_hash", None)
        flop, moved = space.flop, space.bytes
        if isinstance(schedule, Schedule):
            warn_of_out_of_bounds_reads(schedule)
            with suppress(NoArithmetic):  # what only moves elements is rated by its bytes
                flop = flop or compute_flop(schedule)
            moved = moved or compute_bytes(output_tensors(output))
        return space, float(flop), float(moved)

    def _called_with(self, space: ConfigSpace) -> object:
        with ApplyConfig(space):
            return self._call()

    def _call(self) -> object:
        """Run the template once, on the arguments and into the space that are current."""
        signature = inspect.signature(self.func)
        cannot = f"template {self.name!r} cannot take the arguments {self.args}"
        try:
            given = signature.bind(*self.args).arguments
        except TypeError as error:
            raise WorkloadError(f"{cannot}: {error}; expected {self.name}{signature}") from error
        try:
            output = self.func(*self.args)
        except TypeError as error:
            for name, value in given.items():
                whole = signature.parameters[name].annotation in (int, "int")
                if whole and not isinstance(value, int):
                    raise WorkloadError(
                        f"{cannot}: {name} must be a whole number, got {value!r}"
                    ) from error
            raise
        check_output(self.name, output)
        return output

    def instantiate(self, config: Config) -> Any:
        """Run the template with one configuration.

        Returns:
            ``(schedule, [tensors])`` or a `SourceKernel`, whatever the template returns.

        Raises:
            InstantiationError: the template declared this configuration impossible.
            SpaceError: the configuration does not belong to this template.
        """
        return self._outcome(config).output

    def _outcome(self, config: object) -> Outcome:
        if config is None:
            raise SpaceError(
                f"task {self.name!r}: expected a configuration, got None, which task.default() "
                "returns for a template that does not run untuned; "
                f"instantiate(autotune.task.FallbackConfigEntity()) says why{self._an_example()}"
            )
        if not isinstance(config, (ConfigEntity, Knobs)):
            raise SpaceError(
                f"task {self.name!r}: expected a configuration, such as task.default(), got "
                f"{config!r}"
            )
        with self._on_target():
            outcome = Call(self.func, self.args, self.config_space).outcome(config)
        if not outcome.knobs.valid():
            raise InstantiationError("; ".join(outcome.knobs.errors))
        return outcome

    def _an_example(self) -> str:
        """Return a text that names a point of the space, if there is one."""
        example = next(self.examples(), None)
        return "" if example is None else f"; a point is task.config_space.get({example.index})"

    def realise(self, candidate: object) -> Realisation:
        """Run the template with a point of its space; see `instantiate` for what is raised.

        The right answer is what `reference` of the task says, where the user has set one, else
        that of the kernel, else that of the computes.
        """
        if isinstance(candidate, ConfigEntity) and candidate.errors:
            raise InstantiationError("; ".join(map(str, candidate.errors)))
        outcome = self._outcome(candidate)
        own = getattr(self, "reference", None)
        return Realisation(
            outcome.output,
            Called(own) if own is not None else output_reference(outcome.output),
            flop=float(outcome.knobs.flop),
            bytes=float(outcome.knobs.bytes),
        )

    def examples(self) -> Iterator[ConfigEntity]:
        """Return the first valid points of the space, if they come early in it."""
        space = self.config_space
        end = min(_LOOKED_AT, space.range_length)
        index = space.get_next_index(-1, end=end)
        for _ in range(_EXAMPLES):
            if index is None:
                return
            yield space.get(index)
            index = space.get_next_index(index, end=end)

    def default(self) -> ConfigEntity | None:
        """Return the point with which the template runs untuned, or None.

        None means that the template refuses to run untuned, or makes a choice that is not in its
        space.
        """
        untuned = FallbackConfigEntity()
        try:
            self.instantiate(untuned)
        except Exception:  # a template is the user's: whatever it raises, it does not run untuned
            return None
        return self.config_space.point_of({name: untuned[name] for name in untuned})

    def suggested(self) -> list[ConfigEntity]:
        """Return the valid points that the template suggests to try early."""
        points = map(self.config_space.point_of, self.config_space.suggestions)
        return [point for point in points if point is not None]

    def own(self, candidate: object) -> ConfigEntity:
        """Return the point of the space to which a record belongs, by its choices.

        Raises:
            SpaceError: there is no such point, or the index is out of range.
        """
        config = ConfigEntity.of(candidate)
        check_index(config.index, prod(map(len, self.config_space.space_map.values())))
        return self.config_space.own(config)

    @staticmethod
    def of(workload: object) -> Task:
        """Check that a workload is the task of a template and return it.

        Raises:
            TemplateError: it is not.
        """
        if isinstance(workload, Task):
            return workload
        raise TemplateError(f"expected a task of a template, got {shown(workload)}")

    def _on_target(self) -> Target:
        target = self.target or Target.current()
        if target is None:
            raise TemplateError(f"task {self.name!r} has no target; pass target= to task.create")
        return target

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and (
            (self.workload, self.target) == (other.workload, other.target)
        )

    def __hash__(self) -> int:
        return hash((self.workload, self.target))

    def __reduce__(self) -> tuple[Callable[..., Task], tuple[object, ...]]:
        entry = TASK_TABLE.get(self.name)
        function = entry and (entry.fcustomized or entry.fcompute or entry.foperator)
        module = getattr(function, "__module__", None)
        host = None if self.target_host is None else str(self.target_host)
        target = None if self.target is None else str(self.target)
        return _restore, (self.name, self.args, target, host, module)

    def __repr__(self) -> str:
        return (
            f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, "
            f"workload={self.workload})"
        )


def create(
    task_name: str | Function,
    args: Sequence[object],
    target: str | Target | None = None,
    target_host: str | Target | None = None,
    template_key: object = None,
) -> Task:
    """Make a task and collect the knobs of its template.

    Args:
        task_name: name of a registered template, or the decorated function itself; another
            function becomes the template of its name, as in TVM.
        args: arguments of the template, by position.
        target: the target to tune for; by default the current one.
        target_host: recorded in logs.
        template_key: accepted for scripts of TVM 0.6; a template has one form.

    Raises:
        TemplateError: the template is unknown, or there is no target.
        WorkloadError: the template does not take these arguments.
        SpaceError: the knobs are ill-defined.
        FlopError: the operations of the template's schedule cannot be counted.

    Example::

        import autotune.templates

        task = autotune.create("gemm_nn.cpu", args=(512, 512, 512), target="llvm")
        print(task.config_space)
    """
    name = named(task_name)
    target = Target.current() if target is None else target
    if target is None:
        raise TemplateError(
            f"task {name!r} needs a target: pass target= or wrap the call in `with Target(...):`"
        )
    task = Task(name, args, target, target_host)
    task.config_space  # noqa: B018 - collects the knobs now, so that mistakes show here
    return task


def _target(spec: str | Target | None) -> Target | None:
    return spec if spec is None or isinstance(spec, Target) else Target(spec)


def _restore(
    name: str, args: Workload, target: str | None, host: str | None, module: str | None
) -> Task:
    """Rebuild a task in another process, importing the module that registers its template."""
    if name not in TASK_TABLE and module not in (None, "__main__", *sys.modules):
        assert module is not None
        importlib.import_module(module)
    return Task(name, args, target, host)


__all__ = [
    "TASK_TABLE",
    "ApplyConfig",
    "ApplyFixedConfig",
    "DispatchContext",
    "FallbackContext",
    "FlopCalculationError",
    "Task",
    "TaskTemplate",
    "args_to_workload",
    "compute_flop",
    "create",
    "deserialize_args",
    "find_template",
    "get_config",
    "register",
    "register_topi_compute",
    "register_topi_schedule",
    "serialize_args",
    "template",
]
