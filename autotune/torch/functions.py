"""The function behind an operator: a built one, or a template that is called by shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from autotune.driver import kernel_of
from autotune.errors import KernelError
from autotune.just_in_time import Jit
from autotune.runtime import Module, device
from autotune.target import Target
from autotune.task import create
from autotune.task.fallback import FallbackConfigEntity
from autotune.torch.signature import Signature, signature_of
from autotune.utils.check import Check


class OperatorFunction(Protocol):
    """The function behind an operator.

    Attributes:
        signature: what it takes and returns; extents are those of one example where there is more
            than one.
        kind: of the device that it runs on.
        fixed: shapes of the outputs, where they are always the same.
    """

    signature: Signature
    kind: str
    fixed: Sequence[tuple[int, ...]] | None

    def signature_for(self, inputs: Sequence[Any]) -> Signature:
        """Return what it takes and returns with these inputs, which may hold no values."""
        ...

    def __call__(self, *values: Any) -> None:
        """Run on inputs and outputs, in the kernel's order."""
        ...


class OfModule:
    """A built function."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.signature = signature_of(module.kernel)
        self.kind: str = module.device.kind
        is_open = module.kernel.sizes is not None
        self.fixed: Sequence[tuple[int, ...]] | None
        self.fixed = None if is_open else [p.argument.shape for p in self.signature.outputs]

    def signature_for(self, inputs: Sequence[Any]) -> Signature:
        """Return the one that it has; open sizes stay open."""
        return self.signature

    def __call__(self, *values: Any) -> None:
        """Run."""
        self._module(*values)


class OfTemplate:
    """A template, whose arguments follow from the inputs.

    Args:
        jit: the template as a function of inputs and outputs.
        key: takes the inputs alone, and returns the arguments of the template.
        example: arguments of one workload, from which names, roles and dtypes are read.
        target: the target.
    """

    def __init__(
        self,
        jit: Jit,
        key: Callable[..., Sequence[object]],
        example: Sequence[object],
        target: Target,
    ) -> None:
        self._jit = jit
        self._key = key
        self._target = target
        self._known: dict[tuple[object, ...], Signature] = {}
        self.signature = self._signature(_plain(example))
        self.kind: str = device(target).kind
        self.fixed: Sequence[tuple[int, ...]] | None = None

    def signature_for(self, inputs: Sequence[Any]) -> Signature:
        """Return the one for these shapes, which are those of a single workload."""
        given = self._key(*inputs)
        check = Check(KernelError, self.signature.name)
        check.sequence("key(...)", given, "a tuple of arguments of the template")
        found = self._signature(_plain(given))
        if found.text != self.signature.text:
            raise KernelError(
                f"{found.name}: with these inputs the template has the arguments {found.text}; "
                f"the operator was made with an example of {self.signature.text}"
            )
        return found

    def _signature(self, args: tuple[Any, ...]) -> Signature:
        if args not in self._known:
            task = create(self._jit.template, args, target=self._target)
            kernel = kernel_of(task.instantiate(FallbackConfigEntity()), self._target)
            self._known[args] = signature_of(kernel)
        return self._known[args]

    def __call__(self, *values: Any) -> None:
        """Run."""
        self._jit(*values)


def inputs_among(signature: Signature, values: Sequence[Any]) -> list[Any]:
    """Return the inputs among all arguments of a kernel."""
    return [values[p.position] for p in signature.inputs]


def _plain(value: Any) -> Any:
    """Return lists as tuples, and numbers that are traced as the numbers they are at present."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return tuple(_plain(each) for each in value)
    return int(value) if type(value).__name__ == "SymInt" else value
