"""The backend of `torch.compile`: graphs that dynamo captures run as compiled networks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from functools import partial
from importlib.metadata import entry_points
from operator import is_, itemgetter
from typing import Any

from autotune.errors import AutotuneError, GraphError, KernelError
from autotune.importers import (
    Division,
    IdleError,
    read_or_divide,
    written_inputs,
)
from autotune.torch.admission import Admission
from autotune.torch.aliasing import NoAliasing
from autotune.torch.compiling import Compiling, compile_lock, device_of
from autotune.torch.divided import DividedNetwork, told
from autotune.torch.programs import Programs
from autotune.torch.shared_state import shared_state
from autotune.torch.tensor_network import TensorNetwork
from autotune.utils.check import Check
from autotune.utils.lazy_torch import has_torch, torch

logger = logging.getLogger("autotune")
# Dynamo's mark of tensors that it passes because a module holds them.
_STATIC = "_dynamo_static_input_type"
# For so many numbers a graph is compiled anew; so many networks are worth a warning.
_MOST_NUMBERS, _MANY = 8, 50


def backend(
    graph_module: Any,
    example_inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Return what runs a graph of dynamo: ``torch.compile(model, backend="autotune")``.

    A network is compiled at the first call with each set of shapes, or where there are many at a
    later one (`admission`). Parameters become constants; when they are written the network is
    compiled anew, from kernels that are compiled already.
    Inputs and buffers that the graph writes are written. Operators that cannot be imported run by
    torch, between networks of the others; so does a whole graph that needs gradients. A warning
    says so once.

    Args:
        graph_module: the graph.
        example_inputs: what dynamo traced it with.
        options: ``tune``, seconds for each network, and ``log``, a path.
        mode: of Inductor; networks have none but ``"default"``.

    Raises:
        KernelError: an option is invalid, or there is another mode.
    """
    if mode not in (None, "default"):
        hint = (
            "; networks are CUDA graphs already, and options={'tune': 60, 'log': ...} tunes them"
        )
        Check(KernelError, "torch.compile(backend='autotune')").refuse(
            "mode", "left out", mode, hint
        )
    how = Compiling.of(options)
    pytorch = torch()
    tensors = [each for each in example_inputs if isinstance(each, pytorch.Tensor)]
    if pytorch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        logger.warning(
            "torch.compile(backend='autotune'): gradients are enabled and the graph has tensors "
            "that require them; autotune has no backward pass, so torch runs it eagerly. For "
            "inference call the model under torch.no_grad() or torch.inference_mode()"
        )
        return graph_module.forward  # type: ignore[no-any-return]
    return Specialised(graph_module, how)


def register() -> None:
    """Give the backend its name in torch, unless it has it from the package's entry point.

    A tree that is not installed has none.
    """
    named = any(each.name == "autotune" for each in entry_points(group="torch_dynamo_backends"))
    if not named and has_torch():
        torch()._dynamo.register_backend(backend, name="autotune")


class Specialised:
    """A graph of dynamo, compiled for each set of shapes that it is called with.

    Dynamo guards the shapes of a graph, unless some are symbols: then it passes them as numbers.
    """

    def __init__(self, graph_module: Any, how: Compiling) -> None:
        self._graph_module = graph_module
        self._how = how
        self._programs = Programs(graph_module)
        self._numbers = _numbers(graph_module)
        self._lock = threading.Lock()
        self._known: list[_Network] = []
        self._admission = Admission()
        # Keys of what torch runs.
        self._refused: list[_Key] = []
        self._told: set[str] = set()

    def __call__(self, *args: Any) -> Any:
        """Run on what dynamo passes."""
        for network in self._known:
            if network.key.fits(args):
                if network.is_shared(args):
                    return self._graph_module(*args)
                results = network(args)
                return self._renewed(network, args) if results is None else results
        if not any(key.fits(args) for key in self._refused) and self._admits(args):
            return self._by_another(args)
        return self._graph_module(*args)

    def _by_another(self, args: Sequence[Any]) -> Any:
        """Return the results of a network that is compiled now, or of torch where none can be."""
        made = self._compiled(args)
        results = None if made is None or made.is_shared(args) else made(args)
        return self._graph_module(*args) if results is None else results

    def _admits(self, args: Sequence[Any]) -> bool:
        same = [
            each.key for each in self._known if each.key.holds(args) and each.key.has_numbers(args)
        ]
        return self._admission.admits(len(same), lambda: same[0].shapes_of(args))

    def _renewed(self, network: _Network, args: Sequence[Any]) -> Any:
        """Return the results of a network whose parameters were written."""
        with self._lock:
            self._known = [each for each in self._known if each is not network]
        return self._by_another(args)

    def _compiled(self, args: Sequence[Any]) -> _Network | None:
        """Return a network for these shapes; None, after a warning, where torch is to run."""
        if torch().cuda.is_available() and torch().cuda.is_current_stream_capturing():
            raise KernelError(
                "torch.compile(backend='autotune'): a network is not compiled while a CUDA graph "
                "is captured; call the model once before, with inputs of these shapes"
            )
        key = _Key(args, self._numbers)
        with self._lock:
            for each in self._known:  # another thread was faster
                if each.key.fits(args):
                    return each
            try:
                self._check_numbers(key)
                made = _Network(self._programs, self._how, args, key)
            except IdleError:  # of which nobody needs to know
                self._leave(key)
                return None
            except AutotuneError as error:
                self._refuse(key, str(error))
                return None
            except Exception as error:  # a model must not end for a bug of its compiler
                logger.debug("", exc_info=True)
                self._refuse(
                    key, f"{type(error).__name__}: {error}; this is a bug of autotune, please "
                    "report it (logging.getLogger('autotune').setLevel('DEBUG') shows where)"
                )  # fmt: skip
                return None
            self._known = [made, *self._known]
            if made.told and made.told not in self._told:
                self._told.add(made.told)
                logger.warning("torch.compile(backend='autotune'): %s", made.told)
            if len(self._known) == _MANY:
                logger.warning(
                    "torch.compile(backend='autotune'): a graph was compiled for %s sets of "
                    "shapes, each with memory of its own; pad inputs to fewer shapes", _MANY
                )  # fmt: skip
            return made

    def _refuse(self, key: _Key, reason: str) -> None:
        """Leave a graph with such arguments to torch, and say why."""
        logger.warning("torch.compile(backend='autotune'): torch runs a graph: %s", reason)
        self._leave(key)

    def _leave(self, key: _Key) -> None:
        """Leave a graph with such arguments to torch."""
        self._refused.append(key.of_any_number() if self._numbers else key)

    def _check_numbers(self, key: _Key) -> None:
        known = {each.key.values for each in self._known}
        if key.values not in known and len(known) >= _MOST_NUMBERS:
            raise GraphError(
                f"numbers that it takes differ from call to call, of which {_MOST_NUMBERS} were "
                "compiled; pass them as tensors"
            )


class _Key:
    """What a network is compiled for: its parameters, and the shapes of all else.

    Args:
        args: of a call.
        numbers: places of tensors that stand for numbers.
        inputs: places of tensors that are no parameters, though a module holds them.

    Attributes:
        static: places of the parameters among the arguments.
        numbers: the numbers, by their places.
        values: the numbers as text, in which NaN is equal to itself, and zeros differ; empty where
            any fit.
    """

    def __init__(
        self, args: Sequence[Any], numbers: Sequence[int], inputs: Container[int] = ()
    ) -> None:
        self._tensor = tensor = torch().Tensor
        parameter = torch().nn.Parameter
        self.static = [
            i for i, each in enumerate(args) if isinstance(each, tensor) and i not in inputs
            and (isinstance(each, parameter) or hasattr(each, _STATIC))
        ]  # fmt: skip
        self.numbers = {i: args[i].item() for i in numbers}
        # Twice the first, since one alone would come without a tuple. Held, so that no other
        # tensor gets the identity of one that is gone.
        self._pick = itemgetter(*self.static, self.static[0]) if self.static else _nothing
        self._held = self._pick(args)
        others = {*self.static, *numbers}
        self._rest = [i for i in range(len(args)) if i not in others]
        self._shapes = self._now(args)
        self.values = repr(self.numbers)

    def of_any_number(self) -> _Key:
        """Return this key, to fit whatever the numbers are."""
        self.values = ""
        return self

    def _now(self, args: Sequence[Any]) -> list[object]:
        tensor = self._tensor
        return [
            (each.shape, each.stride()) if isinstance(each, tensor) else each
            for each in [args[i] for i in self._rest]
        ]

    def fits(self, args: Sequence[Any]) -> bool:
        """Return whether arguments are those parameters, of those shapes, and those numbers."""
        return self.holds(args) and self._now(args) == self._shapes and self.has_numbers(args)

    def holds(self, args: Sequence[Any]) -> bool:
        """Return whether the parameters among arguments are those."""
        return all(map(is_, self._pick(args), self._held))

    def has_numbers(self, args: Sequence[Any]) -> bool:
        """Return whether the numbers among arguments are those, or any fit."""
        if not self.numbers or not self.values:
            return True
        return repr({i: args[i].item() for i in self.numbers}) == self.values

    def shapes_of(self, args: Sequence[Any]) -> Hashable:
        """Return what is the same for calls with these parameters and numbers and equal shapes."""
        return hash(tuple(map(id, self._held))), self.values, repr(self._now(args))


def _nothing(_: Sequence[Any]) -> tuple[Any, ...]:
    return ()


def _numbers(graph_module: Any) -> tuple[int, ...]:
    """Return the places of tensors of which a graph asks nothing but their numbers.

    So dynamo passes floats that it does not see as constants, such as the epsilon of a norm in a
    graph of dynamic shapes.
    """
    nodes = [each for each in graph_module.graph.nodes if each.op == "placeholder"]
    return tuple(
        i for i, each in enumerate(nodes)
        if each.users
        and all(user.op == "call_method" and user.target == "item" for user in each.users)
    )  # fmt: skip


class _Network:
    """A graph of dynamo with the parameters that it was called with, as a compiled network."""

    def __init__(self, programs: Programs, how: Compiling, args: Sequence[Any], key: _Key) -> None:
        pytorch = torch()
        static = {i: args[i] for i in key.static}
        others = [i for i in range(len(args)) if i not in static and i not in key.numbers]
        tensors = [
            each for i, each in enumerate(args)
            if isinstance(each, pytorch.Tensor) and i not in key.numbers
        ]  # fmt: skip
        first = tensors[0] if tensors else pytorch.empty(0)
        where = device_of(first)
        with compile_lock(), programs.kept_calls():
            traced = programs.traced(args, static, key.numbers)
            self._state = shared_state(traced.program, static.values())
            made = read_or_divide(traced.program, first.device, self._state.constants)
        # What is written is an input: caches, counters, statistics.
        places = [*traced.held, *others]
        self.key = _Key(args, list(key.numbers), traced.held)
        self._apart = NoAliasing(args, [places[i] for i in written_inputs(made.writes)])
        self.told = ""
        if isinstance(made, Division):
            self.told = told(made)
            self._inputs = places
            kernels = self._state.kernels
            self._run: DividedNetwork | TensorNetwork = DividedNetwork(made, how, where, kernels)
            return
        apart = {str(each.device) for each in tensors if each.device != first.device}
        if apart:
            raise GraphError(f"its tensors are on {first.device} and {', '.join(apart)}")
        self._inputs = [i for i, each in zip(places, made.inputs, strict=True) if each is not None]
        compiled = partial(how.compile, where=where, shared=self._state.kernels)
        self._run = TensorNetwork(made, compiled, where)

    def is_shared(self, args: Sequence[Any]) -> bool:
        """Return whether something that is written shares memory with another argument."""
        return not self._apart(args)

    def __call__(self, args: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the results; None if parameters were written."""
        results = self._run([args[i] for i in self._inputs])
        return None if results is None else tuple(results)
