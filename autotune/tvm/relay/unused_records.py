"""Which records of a log a network could not use, where TVM would have used them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from autotune.errors import AutotuneError
from autotune.graph import Value
from autotune.graph.fuse import FusedFunction
from autotune.network.choice import ByTemplate, Choice, Chooser, by_dispatch
from autotune.record import ApplyHistoryBest
from autotune.target import Target
from autotune.task import DispatchContext
from autotune.task.dispatcher import Config
from autotune.task.refusals import Attempt
from autotune.task.workload import Workload

logger = logging.getLogger("autotvm")

Shapes = tuple[tuple[object, ...], ...]

# Workloads that a warning names.
_NAMED = 3


class _Noting(DispatchContext):
    """Asks a context, and notes for which workloads it was asked, and its answers."""

    def __init__(self, context: DispatchContext) -> None:
        self._context = context
        self.asked: set[Workload] = set()
        self.answers: dict[Workload, Config] = {}

    def known(
        self, target: Target | None, workload: Workload, attempt: Attempt | None = None
    ) -> Config | None:
        """Return the answer of the context."""
        found = self._context.known(target, workload, attempt)
        self.asked.add(workload)
        if found is not None:
            self.answers[workload] = found
        return found


@dataclass
class RecordedChoices:
    """Chooses by the records around a build, and warns of those of its layers that fit nothing.

    These have the knobs of templates of TVM that have none of these knobs here, or are of a
    template that no layer has here, such as ``dense_int8.cuda``.
    """

    context: DispatchContext
    _fit_nothing: dict[Workload, None] = field(default_factory=dict)
    _asked: set[Workload] = field(default_factory=set)
    _layers: set[Shapes] = field(default_factory=set)
    _used: set[Workload] = field(default_factory=set)

    @property
    def choose(self) -> Chooser:
        """Returns how a function is computed."""
        noting = _Noting(self.context)
        recorded = by_dispatch(noting)

        def choose(function: FusedFunction, target: Target) -> Choice:
            noting.asked.clear()
            noting.answers.clear()
            choice = recorded(function, target)
            self._asked |= noting.asked
            self._layers |= {_shapes(node.inputs) for node in function.nodes}
            if any(_is_of(choice, config) for config in noting.answers.values()):
                self._used |= noting.asked
            else:
                self._fit_nothing |= dict.fromkeys(noting.answers)
            return choice

        return choose

    def warn(self, target: Target) -> None:
        """Log which records are of layers of the network and were of no use to any."""
        others = dict.fromkeys(self._of_other_templates(target))
        unused = [each for each in [*self._fit_nothing, *others] if each not in self._used]
        if unused:
            more = len(unused) - _NAMED
            named = "; ".join(f"{name}{arguments}" for name, *arguments in unused[:_NAMED])
            logger.warning(
                "relay.build: records of %s%s are not used: no template here has their knobs for "
                "such a layer, which runs untuned; tune it again",
                named,
                f" and {more} more" if more > 0 else "",
            )

    def _of_other_templates(self, target: Target) -> Iterator[Workload]:
        """Yield the workloads of records that have the operands of a layer, and another name."""
        tuned = {_operands(each) for each in self._used}
        names = {name for name, *_ in self._asked}
        keys = {target.model, *target.keys}
        for key, workload in _held(self.context):
            if key in keys and workload[0] not in names:
                operands = _operands(workload)
                if operands in self._layers and operands not in tuned:
                    yield workload


def _is_of(choice: Choice, config: Config) -> bool:
    """Return whether a choice is that of a recorded configuration."""
    if not isinstance(choice, ByTemplate):
        return False
    try:
        return bool(choice.offer.task.own(config).key == choice.candidate.key)
    except AutotuneError:
        return False


def _shapes(inputs: Iterable[Value]) -> Shapes:
    """Return the shapes of the operands of a layer, which may be of converted types."""
    return tuple(each.type.shape for each in inputs)


def _operands(workload: Workload) -> Shapes:
    """Return the shapes of the tensors among the arguments."""
    tuples = (each for each in workload[1:] if isinstance(each, tuple))
    return tuple(each[1] for each in tuples if each[:1] == ("TENSOR",))


def _held(context: DispatchContext) -> Iterable[tuple[str, Workload]]:
    if not isinstance(context, ApplyHistoryBest):
        return ()
    return [*context.best_by_model, *context.best_by_targetkey]
