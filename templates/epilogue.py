"""The epilogue of kernels: bias, residual, scale and shift, and an activation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from .common import Array
from .elementwise.expression import CUDA, Expression, normal_cdf

# Sums are float32 when they are multiplied.
_LARGEST = float(np.finfo(np.float32).max)
# Names of activations; kernels get the index in this list, and its length for expressions of `a`.
ACTIVATIONS = ("none", "relu", "relu6", "silu", "gelu", "gelu_tanh")


def activated(x: Array, activation: str) -> Array:
    """Return ``x`` after an activation."""
    result: Array
    match activation:
        case "relu":
            result = np.maximum(x, 0)
        case "relu6":
            result = np.clip(x, 0, 6)
        case "silu":
            result = x / (1 + np.exp(-x))
        case "gelu":
            result = x * normal_cdf(x)
        case "gelu_tanh":
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
            result = x / 2 * (1 + np.tanh(inner))
        case "none":
            result = x
        case _:
            result = Expression(activation, ("a",)).numpy({"a": x})
    return result


@dataclass(frozen=True)
class Epilogue:
    """``activation((sum * alpha + bias + residual) * scale + shift)``, each part optional.

    Attributes:
        bias: whether a bias per channel is added.
        residual: whether an array of the output's shape is added.
        affine: whether a scale and a shift per channel follow.
        activation: one of `ACTIVATIONS`, or an expression of the number ``a``.
        alpha: a factor of the sums, a constant of the kernel.
        kept: whether ``sum * alpha + bias + residual`` is a result too, the first of two.
        shift: whether a shift follows without a scale.
    """

    bias: bool = False
    residual: bool = False
    affine: bool = False
    activation: str = "none"
    alpha: float = 1.0
    kept: bool = False
    shift: bool = False

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            self._check_expression()
        if self.affine and self.shift:
            raise TemplateError("a shift without a scale and both of them cannot follow a sum")
        if not abs(self.alpha) <= _LARGEST:
            raise TemplateError(f"alpha must be a finite float32, got {self.alpha!r}")

    def _check_expression(self) -> None:
        known = ", ".join(ACTIVATIONS)
        try:
            made = Expression(self.activation, ("a",))
        except TemplateError as error:
            raise TemplateError(
                f"activation must be one of {known}, or an expression of a, got "
                f"{self.activation!r}: {error}"
            ) from None
        if not made.reads("a"):
            raise TemplateError(
                f"activation must be one of {known}, or an expression of a, got "
                f"{self.activation!r}, which does not read a"
            )

    @property
    def number(self) -> int:
        """The activation as kernels get it."""
        named = self.activation in ACTIVATIONS
        return ACTIVATIONS.index(self.activation) if named else len(ACTIVATIONS)

    @property
    def has_powers(self) -> bool:
        """Whether the activation has exponentials, which take several instructions."""
        text = self.activation
        if text in ACTIVATIONS:
            return text in ("gelu", "gelu_tanh", "silu")
        return any(f"{name}(" in text for name in ("exp", "tanh", "sigmoid", "erf", "gelu"))

    def arguments(
        self, channels: int, result: tuple[int, ...], dtype: str = "float32"
    ) -> list[Argument]:
        """Return those of bias, residual, scale and shift that it has."""
        affine = ("scale", "shift") if self.affine else ("shift",) if self.shift else ()
        return [
            *([arg("bias", (channels,), dtype)] if self.bias else []),
            *([arg("residual", result, dtype)] if self.residual else []),
            *(arg(name, (channels,), dtype) for name in affine),
        ]

    def results(self, result: tuple[int, ...]) -> list[Argument]:
        """Return the results before the last one."""
        return [arg("kept", result, role="out")] if self.kept else []

    def elements(self, channels: int, outputs: int) -> int:
        """Return the number of elements of the arguments."""
        many = self.residual + self.kept
        return channels * (self.bias + self.shift + 2 * self.affine) + outputs * many

    def names(self, stand_in: str) -> list[str]:
        """Return the arguments of kernels; ``stand_in`` is passed for those it does not have."""
        asked = {"bias": self.bias, "residual": self.residual}
        asked |= {"scale": self.affine, "shift": self.affine or self.shift}
        read = [name if there else stand_in for name, there in asked.items()]
        return [*read, "kept"] if self.kept else read

    def defines(self) -> dict[str, int]:
        """Return the parameters of ``epilogue.h``."""
        by_tanh = self.activation == "gelu_tanh"
        return {
            "bias": self.bias,
            "residual": self.residual,
            "affine": self.affine,
            "activation": ACTIVATIONS.index("gelu") if by_tanh else self.number,
            # Left out unless set, so that older kernel texts stay the same.
            **{name: 1 for name in ("kept", "shift") if getattr(self, name)},
            **({"erf_by_tanh": 1} if by_tanh else {}),
        }

    def texts(self, dtype: str = "float32") -> dict[str, int | str]:
        """Return the definitions of ``alpha``, if not 1, and of an activation without a name.

        Args:
            dtype: of the results.
        """
        made: dict[str, int | str] = {}
        if self.alpha != 1:
            made["ALPHA"] = f"{float(self.alpha)!r}f"
        if self.activation not in ACTIVATIONS:
            made["ACTIVATION_FUNCTION"] = Expression(self.activation, ("a",)).text_in(CUDA)
            made["FAST_FUNCTIONS"] = int(dtype in ("float16", "bfloat16"))
        return made

    def apply(self, sums: Array, others: tuple[Array, ...], channel: int) -> Array:
        """Return the result for ``sums``; ``channel`` is the axis of their channels."""
        return self.both(sums, others, channel)[1]

    def both(self, sums: Array, others: tuple[Array, ...], channel: int) -> tuple[Array, Array]:
        """Return the kept result of ``sums``, and the last one."""
        operands = list(others)
        shape = [1] * sums.ndim
        shape[channel] = -1
        if self.alpha != 1:
            sums = sums * sums.dtype.type(self.alpha)
        if self.bias:
            sums = sums + operands.pop(0).reshape(shape)
        if self.residual:
            sums = sums + operands.pop(0)
        kept = sums
        if self.affine:
            scale, shift = (each.reshape(shape) for each in operands)
            sums = sums * scale + shift
        if self.shift:
            sums = sums + operands.pop(0).reshape(shape)
        return kept, activated(sums, self.activation)
