"""The observers of a run, and the events of which they are notified."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult, Session
from autotune.measure.run.host_gate import Pausable
from autotune.measure.types import Pair
from autotune.record import Database, LogDatabase
from autotune.tuner.loop.result import TuneResult

_EVENTS = ("tuning", "measuring", "trial_ended", "raced", "tuned")


class Callback:
    """Base of what watches a run. Each method does nothing here; override those that matter.

    A plain function of ``(tuner, inputs, results)`` is a callback as well: it is called in turn.
    What raises ends the run, and is not called in turn again; the other callbacks get the rest.
    Any other object is one that can be called so; methods of these names are called if it has
    them, and with a true attribute ``at_once`` it is called when `trial_ended` would be.

    Attributes:
        path: of the log that it writes, or the database, if it writes one.
    """

    path: Path | Database | None = None

    @property
    def bystander(self) -> Pausable | None:
        """A process that must be stopped while kernels are timed on this host; None by default.

        It is read after `tuning`.
        """
        return None

    def tuning(self, tuner: object) -> None:
        """Called before the first trial."""

    def measuring(self, tuner: object, session: Session) -> None:
        """Called before trials are measured, with what builds and runs them; maybe again."""

    def trial_ended(
        self, tuner: object, measure_input: MeasureInput, result: MeasureResult
    ) -> None:
        """Called as soon as a trial ends, even while one proposed before it is still under way.

        What keeps trials must not lose any when the run is killed. In the thread in which the
        trial ended, one call at a time.
        """

    def __call__(
        self, tuner: object, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Called with trials in the order in which they were proposed, before they are learned."""

    def raced(self, tuner: object, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Called with the winner of the final race."""

    def tuned(self, tuner: object, result: TuneResult) -> None:
        """Called at the very end, however the run ended."""


def _place(path: object) -> Path | str | None:
    """Return where a callback keeps trials; None where that has no name, or is something else."""
    if isinstance(path, Database):
        return path.path if isinstance(path, LogDatabase) else path.url or None
    return path if isinstance(path, Path) else None


class Watchers:
    """All callbacks of one run; an error in one keeps none of the others from being called.

    Args:
        owner: what callbacks get as the tuner.
        callbacks: see `Callback`.

    Raises:
        TunerError: one cannot be called.
    """

    def __init__(self, owner: object, callbacks: Sequence[Callable[..., None]]) -> None:
        if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
            raise TunerError(
                "tune(callbacks=...): expected a list of functions of (tuner, inputs, results), "
                f"such as [callback.log_to_file(path)], got {callbacks!r}"
            )
        self._owner = owner
        self._callbacks = tuple(callbacks)
        self._at_once = [c for c in callbacks if getattr(c, "at_once", False)]
        self._in_turn = [c for c in callbacks if c not in self._at_once]
        self._raised: list[Callable[..., None]] = []
        self._told = {event: _handlers(callbacks, event) for event in _EVENTS}
        self._one_at_a_time = threading.Lock()

    @property
    def log(self) -> Path | str | None:
        """The first file, or the folder or database by its URL, to which a callback logs."""
        return next((place for place in map(_place, self._paths) if place), None)

    @property
    def keeps_trials(self) -> bool:
        """Whether a callback logs."""
        return any(isinstance(path, (Path, Database)) for path in self._paths)

    @property
    def _paths(self) -> list[object]:
        return [getattr(callback, "path", None) for callback in self._callbacks]

    @property
    def show_results(self) -> bool:
        """Whether a callback takes the result of the run."""
        return any(
            _handler(callback, "tuned") is not None and getattr(callback, "shows_results", True)
            for callback in self._callbacks
        )

    def tuning(self) -> None:
        """Tell that the run begins."""
        self._tell("tuning")

    def measuring(self, session: Session) -> None:
        """Pass on the session, which from now on stops the watchers' processes while it times."""
        for callback in self._callbacks:
            bystander = getattr(callback, "bystander", None)
            if bystander is not None:
                session.keep_still(bystander)
        self._tell("measuring", session)

    def trial_ended(self, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Tell of a trial that just ended, in whatever thread."""
        with self._one_at_a_time:
            try:
                _call(self._at_once, self._owner, [measure_input], [result])
            finally:
                self._tell("trial_ended", measure_input, result)

    def in_turn(self, pairs: Sequence[Pair]) -> None:
        """Tell of trials whose turn it is."""
        if pairs and self._in_turn:
            inputs, results = [inp for inp, _ in pairs], [res for _, res in pairs]
            called = [each for each in self._in_turn if each not in self._raised]
            _call(called, self._owner, inputs, results, raised=self._raised)

    def raced(self, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Tell who won the final race."""
        self._tell("raced", measure_input, result)

    def tuned(self, result: TuneResult) -> None:
        """Pass on the result of the run."""
        self._tell("tuned", result)

    def _tell(self, event: str, *what: object) -> None:
        _call(self._told[event], self._owner, *what)


def _call(
    functions: Sequence[Callable[..., None]],
    *what: object,
    raised: list[Callable[..., None]] | None = None,
) -> None:
    """Call all in order, also those behind one that raises; add these to ``raised``."""
    for position, function in enumerate(functions, 1):
        try:
            function(*what)
        except BaseException:
            if raised is not None:
                raised.append(function)
            _call(functions[position:], *what, raised=raised)
            raise


def _handlers(callbacks: Sequence[object], event: str) -> list[Callable[..., None]]:
    """Return the functions to call for an event, in order."""
    found = [_handler(callback, event) for callback in callbacks]
    return [one for one in found if one is not None]


def _handler(callback: object, event: str) -> Callable[..., None] | None:
    """Return the method of a callback for an event; None where it has none of its own."""
    method = getattr(callback, event, None)
    if getattr(type(callback), event, None) is getattr(Callback, event):
        return None
    return method if callable(method) else None
