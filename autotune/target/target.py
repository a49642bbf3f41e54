"""Targets: parsing, printing, and the current-target stack.

Target strings have TVM's form, ``kind -option=value ...``; every form that TVM wrote into its logs
from 2018 to 2025 is read. A `Target` is a context manager, as in TVM::

    with Target("cuda -arch=sm_90"):
        func = autotune.build(gemm(1024, 1024, 1024))
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autotune.errors import TargetError
from autotune.target.backends import BY_KIND, CUDA, EMULATED, HOST, Backend, Language
from autotune.target.limits import Limits
from autotune.utils.names import did_you_mean

_KEYS = {
    "cuda": ("cuda", "gpu"), "llvm": ("cpu",), "c": ("cpu",), "rocm": ("rocm", "gpu"),
    "nvptx": ("cuda", "gpu"), "opencl": ("opencl", "gpu"), "vulkan": ("vulkan", "gpu"),
    "metal": ("metal", "gpu"), "hexagon": ("hexagon",), "ext_dev": ("ext_dev",),
    "stackvm": ("cpu",), "hybrid": ("hybrid",), "webgpu": ("webgpu", "gpu"),
    "sdaccel": ("sdaccel",),
    "aocl": ("aocl",), "aocl_sw_emu": ("aocl",), "composite": (),
}  # fmt: skip
# What people call devices whose targets have TVM's names.
_MEANT = {"cpu": "llvm", "host": "llvm", "x86": "llvm", "gpu": "cuda", "nvidia": "cuda"}
# Options that change what is built, and options of TVM that look like one of them.
_OPTIONS = ("emulate", "arch", "model")
_TVM_OPTIONS = ("march",)
# Options of ours that have a form: what they must match, and what to say otherwise.
_VALUES = {
    "emulate": (r"(?i)0|1|true|false", "0 or 1"),
    "max_num_threads": (r"[1-9][0-9]*", "a positive number"),
    "thread_warp_size": (r"[1-9][0-9]*", "a positive number"),
}
# Least similarity at which another name is taken for a misspelt one.
_NEAR = 0.75
# Names NVIDIA's boards have in TVM's target tags ("nvidia/geforce-rtx-3070").
_TAG_PREFIX = "nvidia/"

_stack: ContextVar[tuple[Target, ...]] = ContextVar("autotune_targets", default=())


class Kind(str):
    """The kind of a target; a string with TVM's ``.name``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The kind as a plain string."""
        return str(self)


@dataclass(frozen=True, eq=False)
class Target:
    """A device kind and its options.

    Args:
        target: a target string, a dict such as ``{"kind": "cuda", "arch": "sm_90"}``, or a Target.
        host: ignored by code generation; kept because logs and scripts name one.

    Raises:
        TargetError: the kind is unknown, or the text is not a target.
    """

    kind: Kind
    attrs: Mapping[str, Any]
    keys: tuple[str, ...]
    host: Target | None = field(default=None, repr=False)

    def __init__(
        self, target: str | Mapping[str, object] | Target, host: str | Target | None = None
    ) -> None:
        if isinstance(target, Target):
            kind, attrs = str(target.kind), dict(target.attrs)
            host = host or target.host
        elif isinstance(target, str):
            kind, attrs = _parse(target)
        elif not isinstance(target, Mapping):
            raise TargetError(
                f"target: expected a text such as 'cuda -arch=sm_90', a dict or a Target, "
                f"got {target!r}"
            )
        else:
            attrs = dict(target)
            kind = str(attrs.pop("kind", ""))
            host = host or attrs.pop("host", None)
        if kind not in _KEYS:
            meant = _MEANT.get(kind.lower())
            hint = f"; did you mean {meant!r}?" if meant else did_you_mean(kind, _KEYS)
            raise TargetError(
                f"target {target!r}: unknown kind {kind!r}{hint}; kernels are built for "
                f"{', '.join(sorted(BY_KIND))}"
            )
        _check_options(target, kind, attrs)
        keys = attrs.pop("keys", None)
        keys = keys.split(",") if isinstance(keys, str) else list(keys or ())
        device = attrs.get("device")
        # TVM's rule: explicit keys, then the device option, then the kind's own, each once.
        merged = dict.fromkeys([*keys, *([device] if device else []), *_KEYS[kind]])
        object.__setattr__(self, "kind", Kind(kind))
        object.__setattr__(self, "attrs", attrs)
        object.__setattr__(self, "keys", tuple(merged))
        object.__setattr__(self, "host", None if host is None else Target(host))

    @cached_property
    def backend(self) -> Backend:
        """The back end, which compiles and runs kernels for it.

        Raises:
            TargetError: nothing does.
        """
        if self.kind not in BY_KIND:
            raise TargetError(
                f"kernels cannot be built for target kind {str(self.kind)!r}; "
                f"expected one of {', '.join(sorted(BY_KIND))}"
            )
        found = BY_KIND[self.kind]
        return EMULATED if found is CUDA and self.emulate else found

    @property
    def language(self) -> Language:
        """The language its kernels are written in."""
        return self.backend.language

    @property
    def model(self) -> str:
        """The ``-model`` option; ``"unknown"`` when there is none, as in TVM."""
        return str(self.attrs.get("model", "unknown"))

    @property
    def target_name(self) -> str:
        """The name of the kind, as TVM called it up to 0.6."""
        return self.kind

    @property
    def mcpu(self) -> str:
        """The ``-mcpu`` option, or an empty string."""
        return str(self.attrs.get("mcpu", ""))

    @property
    def libs(self) -> tuple[str, ...]:
        """The libraries of the ``-libs`` option, of which none is called."""
        return tuple(filter(None, str(self.attrs.get("libs", "")).split(",")))

    @property
    def device_name(self) -> str:
        """The ``-device`` option, or an empty string."""
        return str(self.attrs.get("device", ""))

    @property
    def arch(self) -> str:
        """``sm_XX`` for CUDA: the option if given, else that of device 0, else ``sm_75``.

        The last is the oldest architecture that CUDA 13 compiles for, so a machine without a
        device still builds. For a CPU it is the machine name.
        """
        if "arch" in self.attrs:
            return str(self.attrs["arch"])
        return BY_KIND.get(self.kind, HOST).arch()

    @property
    def limits(self) -> Limits:
        """Launch limits: of the device when it has the target's architecture, else by table."""
        return BY_KIND.get(self.kind, HOST).limits(self.arch)

    @property
    def max_num_threads(self) -> int:
        """Most threads of a block."""
        return int(self.attrs.get("max_num_threads", self.limits.threads_per_block))

    @property
    def thread_warp_size(self) -> int:
        """Threads of a warp."""
        return int(self.attrs.get("thread_warp_size", self.limits.warp_size))

    @property
    def emulate(self) -> bool:
        """Whether CUDA kernels run on the CPU emulator: the ``-emulate`` option."""
        return str(self.attrs.get("emulate", "0")).lower() in ("1", "true")

    @cached_property
    def _text(self) -> str:
        options = [f"-keys={','.join(self.keys)}"] if self.keys else []
        options += [f"-{key}={_option_text(self.attrs[key])}" for key in sorted(self.attrs)]
        return " ".join([str(self.kind), *options])

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[object, ...]:
        return Target, (str(self), None if self.host is None else str(self.host))

    def __enter__(self) -> Target:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _stack.set(_stack.get()[:-1])

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """Return the innermost target entered by ``with``, or None.

        Raises:
            TargetError: there is no target and ``allow_none`` is False.
        """
        stack = _stack.get()
        if not stack and not allow_none:
            raise TargetError("no target: wrap the call in `with Target(...):` or pass target=")
        return stack[-1] if stack else None


def cuda(model: str = "unknown", arch: str | None = None, options: str = "") -> Target:
    """Return a CUDA target by model and architecture, as ``tvm.target.cuda``."""
    for name, value in (
        ("model", model),
        ("arch", "" if arch is None else arch),
        ("options", options),
    ):
        if not isinstance(value, str):
            raise TargetError(f"target.cuda: {name} must be a text, got {value!r}")
    parts = ["cuda", options]
    parts += [f"-model={model}"] if model != "unknown" else []
    parts += [f"-arch={arch}"] if arch else []
    return Target(" ".join(filter(None, parts)))


def _check_options(spec: object, kind: str, attrs: Mapping[str, object]) -> None:
    """Refuse a misspelt option of ours; others are kept, as logs hold many that mean nothing here.

    Raises:
        TargetError: an option is almost one of ours, or has a value that it cannot have.
    """
    for name in attrs:
        if not isinstance(name, str):
            raise TargetError(f"target {spec!r}: options must be named by texts, got {name!r}")
        near = difflib.get_close_matches(name, _OPTIONS, 1, _NEAR)
        if near and name not in (*_OPTIONS, *_TVM_OPTIONS):
            raise TargetError(f"target {spec!r}: unknown option -{name}; did you mean -{near[0]}?")
    arch_form = BY_KIND[kind].arch_form if kind in BY_KIND else None
    forms = _VALUES if arch_form is None else {"arch": arch_form, **_VALUES}
    for name, (pattern, expected) in forms.items():
        if name not in attrs:
            continue
        value = attrs[name]
        if not re.fullmatch(pattern, str(value)):
            got = "nothing" if value is True else repr(value)
            raise TargetError(f"target {spec!r}: -{name} needs {expected}, got {got}")
    keys = attrs.get("keys", "")
    if not isinstance(keys, (str, list, tuple)):
        raise TargetError(f"target {spec!r}: keys must be texts, got {keys!r}")


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _parse(text: str) -> tuple[str, dict[str, object]]:
    """Split a target string, JSON text or tag into kind and options."""
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            attrs = dict(json.loads(stripped))
        except ValueError as error:
            raise TargetError(f"target {text!r}: not valid JSON: {error}") from error
        return str(attrs.pop("kind", "")), attrs
    if stripped.startswith(_TAG_PREFIX):
        return "cuda", {"model": stripped}
    words = stripped.split()
    if not words:
        raise TargetError("target: expected a kind such as 'cuda' or 'llvm', got an empty string")
    attrs = {}
    for word in _join(words[1:]):
        key, _, value = word.lstrip("-").partition("=")
        # TVM renamed -target to -mtriple; its logs hold both.
        attrs["mtriple" if key == "target" else key] = _option_value(value)
    return words[0], attrs


def _join(words: list[str]) -> list[str]:
    """Join ``-mattr=+a -b`` style values: a word without a leading dash belongs to the last."""
    joined: list[str] = []
    for word in words:
        if word.startswith("-") or not joined:
            joined.append(word)
        else:
            joined[-1] += ("" if "=" in joined[-1] else "=") + word
    for word in joined:
        if not word.startswith("-"):
            raise TargetError(f"target option: expected -key=value, got {word!r}")
    return joined


def _option_value(text: str) -> object:
    if text == "":
        return True
    try:
        return int(text)
    except ValueError:
        return text
