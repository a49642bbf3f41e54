"""A built function as an operator of PyTorch."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from autotune.errors import KernelError
from autotune.just_in_time import jit
from autotune.kernel import evaluate
from autotune.runtime import Module
from autotune.runtime.arrays.versions import note_written
from autotune.target import Target
from autotune.torch.functions import OfModule, OfTemplate, OperatorFunction, inputs_among
from autotune.torch.signature import Parameter, Signature
from autotune.utils.check import Check
from autotune.utils.lazy_torch import torch

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
# Kernels load vectors of so many bytes.
_ALIGNMENT = 16
_KEYS = {"cpu": "CPU", "cuda": "CUDA"}


@dataclass
class _Operator:
    """An operator that exists for the life of the process, and what it does at present.

    A cell of a notebook that is run again changes what it does; torch allows no second definition.

    Attributes:
        key: torch's dispatch key of the device.
        below: what comes next, by what a call was dispatched by; None is the device itself.
    """

    schema: str
    has_backward: bool
    library: Any
    key: Any
    below: dict[int, Any] = field(default_factory=dict)
    function: Any = None
    run: _Run | None = None
    backward: Callable[..., Any] | None = None
    setup_context: Callable[..., Any] | None = None


_operators: dict[str, _Operator] = {}
_lock = threading.Lock()


def as_op(
    function: Module | Callable[..., Any],
    name: str,
    *,
    key: Callable[..., Sequence[object]] | None = None,
    example: Sequence[object] | None = None,
    target: Target | str | None = None,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
    **tuning: Any,
) -> Callable[..., Any]:
    """Return an operator of torch that runs a built function, or a template.

    The operator takes the inputs of the function (tensors and numbers), allocates the outputs and
    returns them. It writes in-place arguments, and torch is told so. It works eagerly, within
    `torch.compile(fullgraph=True)`, `torch.export` and CUDA graphs, and is also available as
    ``torch.ops.NAMESPACE.NAME``. If it is defined again under its name with the same signature, it
    runs the new function.

    Args:
        function: the result of `autotune.build`, whose sizes may be open; or a template, which is
            built for each shape as by `autotune.jit`. torch compiles a graph for each shape.
        name: ``"namespace::name"``.
        key: for a template: takes the inputs, returns the arguments of the template.
        example: for a template: its arguments for one workload, from which the names, roles and
            dtypes of the operator's arguments are read.
        target: for a template: the target; by default that of the context.
        backward: called with a context and the gradients of the outputs; returns those of the
            inputs, as in `torch.library.register_autograd`. Without it, requesting a gradient is
            an error.
        setup_context: called with (context, inputs, output) to save what ``backward`` needs; by
            default the tensors among the inputs, then the outputs, are ``context.saved_tensors``.
        tuning: for a template: ``tune``, ``budget_s``, ``store`` and ``at_exit`` of `jit`.

    Raises:
        KernelError: torch is missing, the name is invalid or used by something else, or
            ``backward`` is given for a function that writes its inputs.

    Example::

        scale = autotune.torch.as_op(
            module, "mine::scale", backward=lambda context, gradient: gradient * 2
        )
    """
    check = Check(KernelError, "as_op")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        check.refuse("name", "such as 'mine::gemm'", name)
    for argument, given in (("backward", backward), ("setup_context", setup_context)):
        if given is not None:
            check.function(argument, given)
    if setup_context is not None and backward is None:
        check.refuse("setup_context", "left out where there is no backward", setup_context)
    source = _function(check, function, key, example, target, tuning)
    signature = source.signature
    if backward is not None and signature.writes_inputs:
        raise KernelError(
            f"as_op: {name} writes an input in place, of which torch records no gradient; give "
            "the kernel an output of its own, or leave out backward"
        )
    with _lock:
        found = _operators.get(name) or _define(name, source, backward is not None)
        if (found.schema, found.has_backward) != (signature.text, backward is not None):
            raise KernelError(
                f"as_op: {name} was made before as {found.schema}"
                f"{' with' if found.has_backward else ' without'} backward, and cannot become "
                f"{signature.text}; choose another name"
            )
        found.backward, found.setup_context = backward, setup_context
        found.run = _Run(source)
    return found.function  # type: ignore[no-any-return]


def _function(
    check: Check,
    function: Any,
    key: Callable[..., Sequence[object]] | None,
    example: Sequence[object] | None,
    target: Target | str | None,
    tuning: dict[str, Any],
) -> OperatorFunction:
    """Return what the operator runs."""
    if isinstance(function, Module):
        for name, given in (("key", key), ("example", example), ("target", target)):
            if given is not None:
                check.refuse(name, "left out: the function is built already", given)
        if tuning:
            raise TypeError(f"as_op: unexpected argument {next(iter(tuning))!r}")
        return OfModule(function)
    if getattr(function, "task_name", None) is None:
        check.refuse("function", "what autotune.build returns, or a template", function)
    if key is None or example is None:
        check.refuse("key and example", "given for a template", (key, example))
    check.function("key", key, "the inputs")
    check.sequence("example", example, "a tuple of arguments of the template")
    chosen = Target.current() if target is None else Target(target)
    if chosen is None:
        check.refuse("target", "given for a template, or around the call", target)
    made: list[OfTemplate] = []

    def key_of_all(*values: Any) -> Sequence[object]:
        return key(*inputs_among(made[0].signature, values))

    called = jit(function, key=key_of_all, target=chosen, **tuning)
    made.append(OfTemplate(called, key, example, chosen))
    return made[0]


def _define(name: str, source: OperatorFunction, has_backward: bool) -> _Operator:
    pytorch = torch()
    namespace, _, own = name.partition("::")
    if hasattr(getattr(pytorch.ops, namespace), own):
        raise KernelError(f"as_op: there is an operator {name} already; choose another name")
    signature = source.signature
    try:
        library = pytorch.library.Library(namespace, "FRAGMENT")
        library.define(own + signature.text, tags=(pytorch.Tag.pt2_compliant_tag,))
    except (RuntimeError, ValueError) as error:  # a reserved namespace, a word of Python
        reason = str(error).strip().partition("\n")[0]
        raise KernelError(
            f"as_op: torch takes no operator {name}{signature.text}: {reason}; choose another name"
        ) from error
    key = _KEYS[source.kind]
    made = _Operator(signature.text, has_backward, library, getattr(pytorch._C.DispatchKey, key))

    def run(*inputs: Any) -> Any:
        return made.run(inputs) if made.run else None

    def fake(*inputs: Any) -> Any:
        return made.run.empty(inputs) if made.run else None

    library.impl(own, run, key)
    pytorch.library.register_fake(name, fake, lib=library)
    if has_backward:
        _register_backward(name, made, signature)
    else:
        library.impl(own, partial(_without_gradient, made), "Autograd", with_keyset=True)
    made.function = getattr(getattr(pytorch.ops, namespace), own).default
    _operators[name] = made
    return made


def _without_gradient(made: _Operator, keys: Any, *inputs: Any) -> Any:
    """Run an operator without a backward; raise an error if a gradient is requested.

    It is registered for autograd, so it sees requests of torch's transforms and compilers as well.
    """
    run = made.run
    if run is None:
        return None
    run.refuse_gradients(inputs)
    raw = keys.raw_repr()
    if raw not in made.below:
        below = keys & torch()._C._after_autograd_keyset
        # Nothing but the device's own kernel would come next.
        is_last = below.highestPriorityTypeId() == made.key
        made.below[raw] = None if is_last else below
    below = made.below[raw]
    return run(inputs) if below is None else made.function.redispatch(below, *inputs)


def _register_backward(name: str, made: _Operator, signature: Signature) -> None:
    tensors = [i for i, p in enumerate(signature.inputs) if p.is_tensor]

    def save(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        if made.setup_context is not None:
            made.setup_context(ctx, inputs, output)
            return
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        ctx.save_for_backward(*[inputs[i] for i in tensors], *outputs)

    def backward(context: Any, *gradients: Any) -> Any:
        return made.backward(context, *gradients) if made.backward else None

    torch().library.register_autograd(name, backward, setup_context=save, lib=made.library)


class _Run:
    """Runs a function on the inputs of its operator."""

    def __init__(self, function: OperatorFunction) -> None:
        self._torch = torch()
        self._function = function
        signature = function.signature
        self._tensors = [(i, p) for i, p in enumerate(signature.inputs) if p.is_tensor]
        self._outputs = [
            (p.position, getattr(self._torch, p.argument.dtype)) for p in signature.outputs
        ]

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run on tensors; return the outputs."""
        values = list(inputs)
        changed: list[tuple[Any, Any]] = []
        for i, parameter in self._tensors:
            given = values[i]
            if not given.is_contiguous() or given.data_ptr() % _ALIGNMENT:
                values[i] = given.clone(memory_format=self._torch.contiguous_format)
                if parameter.argument.role == "inout":
                    changed.append((given, values[i]))
        outputs = self._made(inputs, self._function.fixed)
        for (position, _), output in zip(self._outputs, outputs, strict=True):
            values.insert(position, output)
        self._function(*values)
        for given, new in changed:
            given.copy_(new)
        # Autograd, which is passed by here, would have raised their versions.
        note_written(given for given, _ in changed)
        return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None

    def refuse_gradients(self, inputs: Sequence[Any]) -> None:
        """Raise if a gradient of an input is asked for, which the operator does not have."""
        for i, parameter in self._tensors:
            if inputs[i].requires_grad and self._torch.is_grad_enabled():
                self._refuse_gradient(parameter)

    def empty(self, inputs: Sequence[Any]) -> Any:
        """Return outputs of the right shapes, for inputs that may hold no values.

        Raises:
            KernelError: the inputs do not fit.
        """
        outputs = self._made(inputs, None)
        return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None

    def _made(self, inputs: Sequence[Any], fixed: Sequence[tuple[int, ...]] | None) -> list[Any]:
        """Return new outputs; where shapes are not ``fixed``, those of the inputs are checked."""
        shapes: Sequence[tuple[Any, ...]] | None = fixed
        if shapes is None:
            signature = self._function.signature_for(inputs)
            sizes = signature.sizes(inputs)
            shapes = [tuple(evaluate(s, sizes) for s in p.shape) for p in signature.outputs]
        where = inputs[self._tensors[0][0]].device if self._tensors else self._function.kind
        return [
            self._torch.empty(shape, dtype=dtype, device=where)
            for shape, (_, dtype) in zip(shapes, self._outputs, strict=True)
        ]

    def _refuse_gradient(self, parameter: Parameter) -> None:
        raise KernelError(
            f"{self._function.signature.name}: argument {parameter.argument.name!r} requires a "
            "gradient, and the operator was made without backward; give as_op one, or call it "
            "within torch.no_grad()"
        )
