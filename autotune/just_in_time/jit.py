"""`autotune.jit`: a template or an operator that is called like a function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Literal, cast, overload

import numpy as np

from autotune.errors import AutotuneError, TunerError
from autotune.just_in_time.background import WORKER, Job
from autotune.just_in_time.choice import ChosenKernel, IsRight, choose, exact
from autotune.just_in_time.empty_arrays import check_nothing_is_written, is_without_elements
from autotune.just_in_time.named_arguments import in_order
from autotune.just_in_time.offers import CallOffer, CallRequest, Source, source_of
from autotune.just_in_time.store import RecordStore, claimed
from autotune.just_in_time.verification import is_known_right, is_right
from autotune.measure import measure_option
from autotune.record import Database
from autotune.record.paths import LogPath
from autotune.runtime import Device, device
from autotune.target import Target
from autotune.task import ConfigEntity, Task
from autotune.task.dispatcher import ContextsAround, contexts_around, is_falling_back
from autotune.tuner import AutoTuner, callback
from autotune.utils.check import Check

Tune = Literal["off", "first", "background"]
_CUDA = 2
_SHAPE = itemgetter(0)  # of what decides about an argument
_MOST_TRIALS = 1_000_000
# Checking what was tuned for other shapes, at the first call for these, takes no longer.
_LONGEST_CHECK_S = 60.0


class Jit:
    """Calls the best kernel that is known for its arguments. Made by `jit`.

    Attributes:
        template: what makes kernels: a template, or the name of an operator.
        store: where records are.
    """

    def __init__(
        self,
        template: Callable[..., Any] | str,
        key: Callable[..., Any],
        tune: Tune,
        budget_s: float,
        store: RecordStore,
        target: Target | None,
        at_exit: bool,
    ) -> None:
        self.template = template
        self.store = store
        self._key = key
        self._tune = tune
        self._budget_s = budget_s
        self._target = target
        self._at_exit = at_exit
        self._choices: dict[tuple[object, ...], ChosenKernel] = {}
        self._tried: set[tuple[object, ...]] = set()
        self._lock = threading.RLock()
        self.__doc__ = key.__doc__
        own = getattr(key, "__name__", "")  # a lambda has none that says which
        named = own if own.isidentifier() else str(getattr(template, "task_name", template))
        self.__name__ = named
        self._source: Source = source_of(named, template)

    def __call__(self, *args: object, stream: object = None, **named: object) -> None:
        """Run the kernel for these arguments; see `Module.__call__`.

        The first call for a shape builds a kernel, and with ``tune="first"`` tunes it.

        Args:
            args: of the function that is decorated, which are those of the kernel.
            stream: see `Module.__call__`.
            named: arguments by the names that the decorated function gives them.

        Raises:
            AutotuneError: the arguments do not fit, or no kernel can be built.
        """
        if named:
            args = in_order(self.__name__, self._key, args, named)
        if self._tune != "background":
            self._choice(args)(*args, stream=stream)
            return
        with WORKER.calling():
            self._choice(args)(*args, stream=stream)

    def choice(self, *args: object, **named: object) -> ChosenKernel:
        """Return the kernel that a call with these arguments runs, and its origin."""
        if named:
            args = in_order(self.__name__, self._key, args, named)
        return self._choice(args)

    def _choice(self, args: tuple[object, ...]) -> ChosenKernel:
        facts = self._facts(args)
        found = self._choices.get(facts)
        if found is None or (found.origin != "exact" and found.version != self.store.look()):
            found = self._chosen(facts, args)
        return found

    def _facts(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """Return what decides about a call.

        Numbers decide by what the user's function makes of them: those that only the kernel takes,
        such as a factor of axpy, may change at each call.
        """
        each = [_facts(value) for value in args]
        facts: tuple[object, ...] = tuple(each)
        if not all(map(_SHAPE, each)):
            self._refuse_unhashable(args)
            facts = (*facts, _hashable(self._given(args)))
        return (*facts, None if self._target else Target.current(), contexts_around())

    def _refuse_unhashable(self, args: Sequence[object]) -> None:
        """Raise where an argument is neither an array nor a number."""
        for number, value in enumerate(args):
            if getattr(value, "shape", None) is None and not _is_hashable(value):
                check = Check(TunerError, self.__name__)
                hint = "; numpy.asarray makes an array of it" if isinstance(value, list) else ""
                check.refuse(f"argument {number}", "an array or a number", value, hint)

    def task(self, *args: object) -> Task:
        """Return the task that a call with these arguments is; of an operator the first choice.

        Raises:
            TunerError: no template computes the operator for these arguments.
        """
        asked = self._asked(args)
        if not asked.offers:
            raise TunerError(f"{self.__name__}: no template computes {asked.title}")
        return asked.offers[0].task

    def _target_of(self, args: Sequence[Any]) -> Target:
        return self._target or Target.current() or _device_of(args).target

    def _asked(self, args: tuple[object, ...]) -> CallRequest:
        """Return the request of a call with these arguments."""
        return self._source.asked(self._given(args), args, self._target_of(args))

    def _given(self, args: Sequence[object]) -> object:
        """Return what the user's function makes of the arguments of a call."""
        try:
            return self._key(*args)
        except AutotuneError:
            raise
        except Exception as error:
            kinds = ", ".join(type(value).__name__ for value in args)
            raise TunerError(
                f"{self.__name__}: the function that gives the arguments of the template failed "
                f"for ({kinds}): {type(error).__name__}: {error}"
            ) from error

    def _chosen(self, facts: tuple[object, ...], args: tuple[object, ...]) -> ChosenKernel:
        with self._lock:
            self._forget_contexts_that_are_gone()
            target = self._target_of(args)
            if any(map(is_without_elements, args)):
                check_nothing_is_written(self.__name__, self._source, self._given, args, target)
                self._choices[facts] = ChosenKernel(None, "nothing", (), self.store.look())
                return self._choices[facts]
            asked = self._asked(args)
            found = exact(asked, target, self.store)
            tune = "off" if is_falling_back() else self._tune
            if found is None and tune == "first" and facts not in self._tried:
                self._tried.add(facts)  # if nothing that runs is found, it is not tried again
                self._tune_now(asked, wait=True)
                found = self._best(asked, target, self._is_right)
            elif found is None and tune == "background" and asked.offers:
                found = self._best(asked, target, is_known_right)
                work = partial(self._tune_later, asked, target, facts)
                tasks = tuple(offer.task for offer in asked.offers)
                device = _device_of(args) if target.backend.on_gpu else None
                WORKER.submit(Job((id(self), tasks), work, self._at_exit, device))
            elif found is None:
                found = self._best(asked, target, self._is_right)
            self._choices[facts] = found
            return found

    def _forget_contexts_that_are_gone(self) -> None:
        for facts in list(self._choices):
            if any(context() is None for context, _ in _contexts_of(facts)):
                self._choices.pop(facts, None)
                self._tried.discard(facts)

    def _best(self, asked: CallRequest, target: Target, is_right: IsRight) -> ChosenKernel:
        return choose(asked, target, self.store, is_right)

    def _is_right(self, task: Task, config: ConfigEntity) -> bool:
        return is_right(task, config, min(self._budget_s, _LONGEST_CHECK_S))

    def _tune_later(
        self,
        asked: CallRequest,
        target: Target,
        facts: tuple[object, ...],
        wait_until_idle: Callable[[], None],
    ) -> None:
        if threading.main_thread().is_alive():  # until it is tuned, the nearest serves
            found = self._best(asked, target, self._is_right)
            with self._lock:
                self._choices[facts] = found
        self._tune_now(asked, wait=False, pause=wait_until_idle)
        found = self._best(asked, target, is_known_right)
        with self._lock:
            self._choices[facts] = found

    def _tune_now(
        self, asked: CallRequest, wait: bool, pause: Callable[[], None] = lambda: None
    ) -> None:
        """Tune all that compute it, for equal parts of the budget."""
        for offer in asked.offers:
            self._tune_one(offer, wait, pause, self._budget_s / len(asked.offers))

    def _tune_one(
        self, offer: CallOffer, wait: bool, pause: Callable[[], None], budget_s: float
    ) -> None:
        """Tune a template, unless another process does or has."""
        with claimed(offer.task, wait) as mine:
            self.store.read_again()
            if not mine or offer.known(self.store.history()) is not None:
                return
            watchers = [callback.log_to_file(self.store.database), lambda *_: pause()]
            AutoTuner(offer.task).tune(
                _MOST_TRIALS,
                measure_option("local", "local"),
                callbacks=watchers,
                timeout_s=budget_s,
            )
            self.store.read_again()

    def __copy__(self) -> Jit:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Jit:
        """Return the function itself: what it knows of shapes is shared."""
        return self

    def __reduce__(self) -> str:
        raise TypeError(f"{self!r} cannot be pickled: make it where it is called, by autotune.jit")

    def __repr__(self) -> str:
        return f"Jit({self._source.name!r}, tune={self._tune!r}, shapes={len(self._choices)})"


@overload
def jit(
    template: Callable[..., Any] | str,
    *,
    key: Callable[..., Any],
    tune: Tune = ...,
    budget_s: float = ...,
    store: LogPath | Database | None = ...,
    target: Target | str | None = ...,
    at_exit: bool = ...,
) -> Jit: ...


@overload
def jit(
    template: Callable[..., Any] | str,
    *,
    key: None = ...,
    tune: Tune = ...,
    budget_s: float = ...,
    store: LogPath | Database | None = ...,
    target: Target | str | None = ...,
    at_exit: bool = ...,
) -> Callable[[Callable[..., Any]], Jit]: ...


def jit(
    template: Callable[..., Any] | str,
    *,
    key: Callable[..., Any] | None = None,
    tune: Tune = "off",
    budget_s: float = 60.0,
    store: LogPath | Database | None = None,
    target: Target | str | None = None,
    at_exit: bool = True,
) -> Any:
    """Return a function that runs the best known kernel of a template for its arguments.

    It chooses by the shapes, dtypes and device of the arguments, and by numbers that ``key``
    computes: the configuration that was tuned for them; otherwise that of the nearest shape tuned
    on this kind of device, adapted; otherwise the template's default. The nearest shape has the
    least sum of \\|log2(a / b)\\| over the numbers among the template's arguments; all else must
    be equal. Contexts around a call, such as ``apply_history_best(log)``, take precedence over the
    store. A call whose outputs are all empty does nothing.

    A configuration that was tuned for other shapes first runs once as a trial, which takes seconds
    of the first call; the verdict is kept in the cache folder. With ``tune="background"`` the
    default is used meanwhile. If the answer is wrong, or the template has no reference, the
    configuration is not used.

    Args:
        template: a function that `autotune.template` decorates; or the name of an operator, such
            as ``"nn.conv2d"``, which the fastest of its templates computes, or a kernel scheduled
            by rule if it has none. The arguments of a call are the inputs of the operator, then
            its results. `autotune.network.templates_for` lists the templates of an operator.
        key: takes the arguments of a call, and returns those of the template, or a dict of the
            operator's attributes. Without it, a decorator for that function is returned.
        tune: ``"off"`` uses the records of the store; ``"first"`` tunes a new workload at its
            first call; ``"background"`` uses the best kernel so far, tunes while this process is
            idle, and then switches to the better kernel. Each trial's answer is checked.
        budget_s: seconds for each workload; also a limit, besides one minute, for the check of a
            configuration that was tuned for other shapes.
        store: where the records are: a path or a URL, shared by processes; by default a log in the
            cache folder. One process of a machine tunes a workload, and all use its records.
        target: the target; by default that of the context, or the arguments' device.
        at_exit: whether background tuning that is not finished is continued after the program has
            ended, for up to the budget of each workload.

    Raises:
        TunerError: an argument is invalid.

    Example::

        @autotune.jit(my_gemm, tune="background", budget_s=60)
        def gemm(a, b, c):
            return a.shape[0], b.shape[1], a.shape[1]

        @autotune.jit("nn.conv2d", tune="first")
        def conv(data, weight, out):
            return {"padding": (1, 1)}
    """
    check = Check(TunerError, "jit")
    source_of("jit", template)
    check.one_of("tune", tune, ("off", "first", "background"))
    check.number("budget_s", budget_s, least=0.001)
    check.flag("at_exit", at_exit)
    chosen = None if target is None else Target(target)

    def make(function: Callable[..., Any], *others: object) -> Jit:
        if others or not callable(function):
            hint = "; jit decorates a function with the arguments of a call, and that is called"
            check.refuse("key", "a function of the arguments of a call", function, hint)
        return Jit(template, function, tune, budget_s, RecordStore(store), chosen, at_exit)

    return make if key is None else make(key)


def _contexts_of(facts: tuple[object, ...]) -> tuple[tuple[Callable[[], object], int], ...]:
    """Return the contexts that were entered around a call."""
    return cast(ContextsAround, facts[-1])[1]


def _facts(value: Any) -> tuple[object, ...]:
    """Return what decides about an argument: shape, dtype and device; of a number the type."""
    if type(value) is np.ndarray:
        return value.shape, value.dtype
    shape = getattr(value, "shape", None)
    if shape is None:
        return (), type(value)
    return tuple(shape), getattr(value, "dtype", type(value)), getattr(value, "device", None)


def _hashable(given: object) -> object:
    """Return what a user's function gave, so that equal means of equal types."""
    if isinstance(given, (tuple, list)):
        return tuple([_hashable(each) for each in given])
    if isinstance(given, dict):
        return tuple([(name, _hashable(value)) for name, value in given.items()])
    return type(given), given if _is_hashable(given) else repr(given)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _device_of(args: Sequence[Any]) -> Device:
    for value in args:
        if hasattr(value, "__dlpack_device__"):
            try:
                kind, index = value.__dlpack_device__()
            except (ValueError, RuntimeError):  # on no device, as torch's "meta"; the call says so
                continue
            if kind == _CUDA:
                return Device("cuda", int(index))
    return device("cpu")
