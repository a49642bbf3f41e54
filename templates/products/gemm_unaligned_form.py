"""The forms of kernels that read rows unaligned, and the values of the knob that select them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import gemm_skinny
from .gemm_tma_form import HALO, SWAPPED_REDUCE, SWAPPED_REDUCING

# Where ranges of the knob start: behind `gemm_skinny`, `conv2d_halo`, and all other families.
FIRST, MORE_CLUSTERS = gemm_skinny.VALUE + 1, HALO + 1
THREE_ROWS = SWAPPED_REDUCE + len(SWAPPED_REDUCING)
# Further clusters: blocks along M and N.
CLUSTERS = ((2, 1), (4, 1))


@dataclass(frozen=True)
class Form:
    """What a kernel reads unaligned, and its clusters.

    Attributes:
        by_class: whether a is read unaligned too, not b alone: rows of a tile are of one class.
        cluster_m: blocks of a cluster along M, among which b is multicast.
        cluster_n: blocks of a cluster along N, among which a is multicast.
    """

    by_class: int
    cluster_m: int = 1
    cluster_n: int = 1

    @classmethod
    def of(cls, knob: int) -> Form:
        """Return the form of a value of the knob; those of other families have a plain one."""
        return cls(**{
            name: plain + sum((knob == v) * (a - plain) for v, a in values.items())
            for (name, plain), values in _VALUES.items()
        })  # fmt: skip

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def knob(self) -> int:
        """The value of the knob."""
        return _KNOBS[self]


def _forms() -> dict[int, Form]:
    """Return the forms by the values of the knob."""
    both = (0, 1)
    first = [Form(by_class, 1, n) for n in (1, 2) for by_class in both]
    more = [Form(by_class, m, n) for m, n in CLUSTERS for by_class in both]
    three = [Form(by_class, 3, 1) for by_class in both]
    ranges = ((FIRST, first), (MORE_CLUSTERS, more), (THREE_ROWS, three))
    return {knob: form for start, forms in ranges for knob, form in enumerate(forms, start)}


_FORMS = _forms()
FORMS = tuple(_FORMS)
_KNOBS = {form: knob for knob, form in _FORMS.items()}
_PLAIN: Mapping[str, Any] = vars(Form(0))
# Of each attribute, with its plain value, the values of the knob at which it is another.
_VALUES = {
    (name, plain): {v: vars(f)[name] for v, f in _FORMS.items() if vars(f)[name] != plain}
    for name, plain in _PLAIN.items()
}
# Values of the knob without clusters: b is read unaligned, or a too.
B, BOTH = Form(0).knob, Form(1).knob
