"""A check of a kernel's arguments against the parameters of its entries."""

from __future__ import annotations

from autotune.ir.dtype import bits_of
from autotune.kernel.entry import plain_name
from autotune.kernel.kernel import Argument, Constant, Kernel, KernelCall, Scalar, Workspace
from autotune.kernel.prototype import ADDRESS, Parameter, element_kind, prototype
from autotune.target.backends import of_language

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def signature_mismatch(kernel: Kernel) -> str | None:
    """Return what does not fit the prototypes in the source, in words, or None.

    Only what can be read for certain counts; compilers and the machine code tell the rest.
    """
    wrong = [_call_mismatch(kernel, one) for one in kernel.calls]
    wrong += [_constant_mismatch(kernel, one) for one in kernel.constants]
    return next(filter(None, wrong), None)


def _constant_mismatch(kernel: Kernel, constant: Constant) -> str | None:
    """Compare the elements of a constant; compilers and the machine code tell its size only."""
    kind = element_kind(kernel.source, constant.name, kernel.flags)
    # 16 bits may be held by any type of 16 bits, and a truth value by a byte.
    held = {"float16": "int16", "bfloat16": "int16", "bool": "int8"}.get(constant.dtype, "")
    if not kind or _agree(kind, constant.dtype) or _agree(kind, held):
        return None
    return (
        f"constant {constant.name!r}: expected an array of {constant.dtype}, the source has one "
        f"of {'addresses' if kind == ADDRESS else kind}"
    )


def _call_mismatch(kernel: Kernel, one: KernelCall) -> str | None:
    written = prototype(kernel.source, plain_name(one.entry), kernel.flags)
    if written is None:
        return None
    passed = kernel.parameters(one)
    if len(written) == len(passed):
        pairs = list(zip(written, passed, strict=True))
        fitting = {a.name for p, a in pairs if _fits(kernel, p, a)}
        wrong = (i for i, (p, a) in enumerate(pairs) if not _fits(kernel, p, a))
        # An address passed twice stands once for an argument that this configuration has not.
        told = [i for i in wrong if pairs[i][0].kind != ADDRESS or pairs[i][1].name not in fitting]
        return _wrong(one, told[0], *pairs[told[0]]) if told else None
    if all(p.sure for p in written):
        of_own = any(not p.kind for p in written)
        advice = "; structs are not passed by value: take their members" if of_own else ""
        return count_mismatch(kernel, one, [p.text for p in written]) + advice
    return None


def count_mismatch(kernel: Kernel, one: KernelCall, taken: list[str]) -> str:
    """Say that an entry takes another number of parameters than a call passes."""
    passed = kernel.parameters(one)
    return (
        f"entry {one.entry!r}: expected {len(passed)} parameters "
        f"({', '.join(map(describe_argument, passed)) or 'none'}), the source takes {len(taken)} "
        f"({', '.join(taken) or 'none'})"
    )


def describe_argument(argument: Argument | Workspace) -> str:
    """Name an argument and how it is passed."""
    if isinstance(argument, Scalar):
        return f"{argument.name!r}: {argument.dtype} by value"
    return f"{argument.name!r}: address of {argument.dtype}{list(argument.shape)}"


def _fits(kernel: Kernel, parameter: Parameter, argument: Argument | Workspace) -> bool:
    kind = parameter.kind
    if not isinstance(argument, Scalar):
        return kind in ("", ADDRESS) and _may_view(parameter.pointee, argument.dtype)
    if not kind:
        return True
    if argument.dtype == "bfloat16":  # C has no such type: its bits are passed
        return kind in ("int16", "uint16", "bfloat16" if of_language(kernel.language).cxx else "")
    return _agree(kind, argument.dtype)


def _may_view(pointee: str, dtype: str) -> bool:
    """Return whether a kernel may read elements of a dtype through such a pointer.

    Bytes may be of anything. Elements of 8 and 16 bits may be held by integers, also several by
    one, as instructions on words of them take them.
    """
    if not pointee or pointee in ("int8", "uint8") or _agree(pointee, dtype):
        return True
    return bits_of(dtype) <= 16 and pointee in _INTEGERS and bits_of(pointee) >= bits_of(dtype)


def _agree(kind: str, dtype: str) -> bool:
    """Return whether two dtypes are the same but for a sign."""
    if dtype in _INTEGERS:
        return kind.removeprefix("u") == dtype.removeprefix("u")
    return kind == dtype


def _wrong(one: KernelCall, i: int, parameter: Parameter, argument: Argument | Workspace) -> str:
    got = "an address" if parameter.kind == ADDRESS else f"{parameter.kind} by value"
    advice = ""
    if not isinstance(argument, Scalar) and parameter.kind in ("", ADDRESS):
        got = f"an address of {parameter.pointee}"
        advice = "; if other elements are meant to be seen there, take a `void *` and cast it"
    elif isinstance(argument, Scalar) and parameter.kind == ADDRESS:
        advice = f"; an array of one element is arg({argument.name!r}, (1,), {argument.dtype!r})"
    elif not isinstance(argument, Scalar):
        advice = f"; a number is arg({argument.name!r}, (), {parameter.kind!r})"
    return (
        f"entry {one.entry!r}: parameter {i + 1}, `{parameter.text}`: expected "
        f"{describe_argument(argument)}, got {got}{advice}"
    )
