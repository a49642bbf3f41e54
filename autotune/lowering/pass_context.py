"""TVM's pass context: options of lowering, for all that is lowered in a ``with`` block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any

from autotune.errors import LoweringError

_UNROLL = "tir.UnrollLoop"
_NO_VECTORS = "tir.disable_vectorize"


class PassContext:
    """Options of lowering; those that mean nothing here are kept and ignored.

    ``config`` may hold ``"tir.UnrollLoop"``, a dict with ``auto_max_step`` and
    ``explicit_unroll``, which are the pragmas ``auto_unroll_max_step`` and ``unroll_explicit`` of
    every loop that has none; and ``"tir.disable_vectorize"``, which makes vector loops plain ones.

    Args:
        opt_level, required_pass, disabled_pass, instruments, trace: accepted for TVM scripts.
        config: the options.

    Example::

        with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
            print(autotune.lower(s, [A, B]))
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[object] | None = None,
        config: Mapping[str, Any] | None = None,
        trace: object = None,
    ) -> None:
        if config is not None and not isinstance(config, Mapping):
            raise LoweringError(
                "PassContext: config must be a dict such as {'tir.disable_vectorize': True}, got "
                f"{config!r}"
            )
        self.opt_level = opt_level
        self.required_pass = list(required_pass or ())
        self.disabled_pass = list(disabled_pass or ())
        self.instruments = list(instruments or ())
        self.trace = trace
        self.config = dict(config or {})
        self.max_step, self.explicit = self._unrolling()
        self._tokens: list[Token[PassContext | None]] = []

    def _unrolling(self) -> tuple[int, bool]:
        options = self.config.get(_UNROLL, {})
        step: object = options.get("auto_max_step", 0) if isinstance(options, Mapping) else None
        if not hasattr(step, "__index__"):
            raise LoweringError(
                f"PassContext: {_UNROLL} must be a dict such as {{'auto_max_step': 16}}, got "
                f"{options!r}"
            )
        return int(step), bool(options.get("explicit_unroll", True))

    @property
    def vectorizes(self) -> bool:
        """Whether vector loops are carried out as such."""
        return not self.config.get(_NO_VECTORS, False)

    @staticmethod
    def current() -> PassContext:
        """Return the innermost context entered by ``with``, or one without options."""
        return _current.get() or PassContext()

    def __enter__(self) -> PassContext:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())


_current: ContextVar[PassContext | None] = ContextVar("autotune_pass_context", default=None)
