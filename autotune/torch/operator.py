"""A built function as an operator of PyTorch."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import KernelError
from autotune.kernel import evaluate
from autotune.runtime import Module
from autotune.torch.door import torch
from autotune.torch.signature import Parameter, Signature, signature_of
from autotune.utils.check import Check

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
# Kernels load vectors of so many bytes.
_ALIGNMENT = 16
_KEYS = {"cpu": "CPU", "cuda": "CUDA"}


@dataclass
class _Operator:
    """An operator that exists for the life of the process, and what it does at present.

    A cell of a notebook that is run again changes what it does; torch allows no second definition.
    """

    schema: str
    has_backward: bool
    library: Any
    run: _Run | None = None
    backward: Callable[..., Any] | None = None
    setup_context: Callable[..., Any] | None = None


_operators: dict[str, _Operator] = {}
_lock = threading.Lock()


def as_op(
    function: Module,
    name: str,
    *,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return an operator of torch that runs a built function.

    It takes the inputs of the function, tensors and numbers, makes its outputs itself and returns
    them; in-place arguments are written, and torch knows it. It works eagerly, within
    `torch.compile(fullgraph=True)`, `torch.export` and CUDA graphs. Also found as
    ``torch.ops.NAMESPACE.NAME``. Made again under its name, with the same signature, it runs the
    new function.

    Args:
        function: what `autotune.build` made; sizes may be open.
        name: ``"namespace::name"``.
        backward: called with a context and the gradients of the outputs; returns those of the
            inputs, as in `torch.library.register_autograd`. Without one, a gradient that is asked
            for is an error.
        setup_context: called with (context, inputs, output) to save what ``backward`` needs; by
            default tensors among the inputs, then the outputs, are ``context.saved_tensors``.

    Raises:
        KernelError: torch is missing, the name is no such name or is taken by something else, or
            ``backward`` is given for a function that writes its inputs.

    Example::

        scale = autotune.torch.as_op(
            module, "mine::scale", backward=lambda context, gradient: gradient * 2
        )
    """
    check = Check(KernelError, "as_op")
    check.kind("function", function, Module, "what autotune.build returns")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        check.refuse("name", "such as 'mine::gemm'", name)
    if function.device.kind not in _KEYS:
        check.refuse("function", "one for the CPU or for CUDA", function)
    signature = signature_of(function.kernel)
    if backward is not None and signature.writes_inputs:
        raise KernelError(
            f"as_op: {name} writes an input in place, of which torch records no gradient; give "
            "the kernel an output of its own, or leave out backward"
        )
    with _lock:
        found = _operators.get(name) or _define(name, signature, function, backward is not None)
        if (found.schema, found.has_backward) != (signature.text, backward is not None):
            raise KernelError(
                f"as_op: {name} was made before as {found.schema}"
                f"{' with' if found.has_backward else ' without'} backward, and cannot become "
                f"{signature.text}; choose another name"
            )
        found.backward, found.setup_context = backward, setup_context
        found.run = _Run(function, signature)
    namespace, _, own = name.partition("::")
    return getattr(getattr(torch().ops, namespace), own).default  # type: ignore[no-any-return]


def _define(name: str, signature: Signature, function: Module, has_backward: bool) -> _Operator:
    pytorch = torch()
    namespace, _, own = name.partition("::")
    if hasattr(getattr(pytorch.ops, namespace), own):
        raise KernelError(f"as_op: there is an operator {name} already; choose another name")
    library = pytorch.library.Library(namespace, "FRAGMENT")
    made = _Operator(signature.text, has_backward, library)
    library.define(own + signature.text, tags=(pytorch.Tag.pt2_compliant_tag,))

    def run(*inputs: Any) -> Any:
        return made.run(inputs) if made.run else None

    def fake(*inputs: Any) -> Any:
        return made.run.empty(inputs) if made.run else None

    library.impl(own, run, _KEYS[function.device.kind])
    pytorch.library.register_fake(name, fake, lib=library)
    if has_backward:
        _register_backward(name, made, signature)
    _operators[name] = made
    return made


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

    def __init__(self, function: Module, signature: Signature) -> None:
        self._torch = torch()
        self._function = function
        self._signature = signature
        self._tensors = [(i, p) for i, p in enumerate(signature.inputs) if p.is_tensor]
        self._outputs = [
            (p.position, p, getattr(self._torch, p.argument.dtype)) for p in signature.outputs
        ]
        is_open = function.kernel.sizes is not None
        self._fixed = None if is_open else [p.argument.shape for p in signature.outputs]

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Run on tensors; return the outputs."""
        values = list(inputs)
        changed: list[tuple[Any, Any]] = []
        for i, parameter in self._tensors:
            given = values[i]
            if given.requires_grad and self._torch.is_grad_enabled():
                self._refuse_gradient(parameter)
            if not given.is_contiguous() or given.data_ptr() % _ALIGNMENT:
                values[i] = given.clone(memory_format=self._torch.contiguous_format)
                if parameter.argument.role == "inout":
                    changed.append((given, values[i]))
        outputs = self._made(inputs)
        for (position, _, _), output in zip(self._outputs, outputs, strict=True):
            values.insert(position, output)
        self._function(*values)
        for given, new in changed:
            given.copy_(new)
        return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None

    def empty(self, inputs: Sequence[Any]) -> Any:
        """Return outputs of the right shapes, for inputs that may hold no values.

        Raises:
            KernelError: the inputs do not fit.
        """
        self._signature.sizes(inputs)
        outputs = self._made(inputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None

    def _made(self, inputs: Sequence[Any]) -> list[Any]:
        shapes = self._fixed
        if shapes is None:
            sizes = self._signature.sizes(inputs)
            shapes = [tuple(evaluate(s, sizes) for s in p.shape) for _, p, _ in self._outputs]
        where = inputs[self._tensors[0][0]].device if self._tensors else self._function.device.kind
        return [
            self._torch.empty(shape, dtype=dtype, device=where)
            for shape, (_, _, dtype) in zip(shapes, self._outputs, strict=True)
        ]

    def _refuse_gradient(self, parameter: Parameter) -> None:
        raise KernelError(
            f"{self._function.name}: argument {parameter.argument.name!r} requires a gradient, "
            "and the operator was made without backward; give as_op one, or call it within "
            "torch.no_grad()"
        )
