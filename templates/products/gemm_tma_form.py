"""The forms of kernels of products by TMA, and the values of the knob that select them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KNOB = "wgmma"
# Where ranges of the knob start: these kernels, `gemm_skinny` and `gemm_unaligned`, clusters of
# 2x2 and 4x2 blocks, split-K within a cluster, both of other clusters, `conv2d_halo`, behind which
# are further clusters of `gemm_unaligned`, and split-K within a cluster with swapped operands.
# Smaller values are other families.
FIRST, SKINNY, LARGE_CLUSTERS, CLUSTER_REDUCE, MORE_CLUSTERS, HALO = 2, 14, 19, 23, 24, 35
SWAPPED_REDUCE = 40
# Other clusters: blocks along M and N, of those that multicast, and of those that split K too.
MULTICASTING = ((4, 1), (1, 2), (1, 4), (2, 4))
REDUCING, SWAPPED_REDUCING = ((2, 1), (1, 2), (2, 2)), ((1, 1), (2, 1))


@dataclass(frozen=True)
class Form:
    """The form of a kernel: its schedule, its clusters, and whether operands are swapped.

    Attributes:
        schedule: CUTLASS's kernel schedule; 0: a block computes one tile, 1: persistent and
            cooperative, 2: persistent and ping-pong.
        cluster_m: blocks of a cluster along M, among which the right operand is multicast.
        swapped: whether operands are swapped (swap AB): a tile's rows are columns of c.
        cluster_n: blocks of a cluster along N, among which the left operand is multicast.
        cluster_reduce: whether split-K is reduced within a cluster, which then has the blocks of
            all ranges of K.
    """

    schedule: int
    cluster_m: int
    swapped: int = 0
    cluster_n: int = 1
    cluster_reduce: int = 0

    @classmethod
    def of(cls, knob: int) -> Form:
        """Return the form of a value of the knob; those of other families have a plain one."""
        return cls(**{
            name: plain + sum((knob == v) * (a - plain) for v, a in values.items())
            for (name, plain), values in _VALUES.items()
        })  # fmt: skip

    @property
    def persistent(self) -> bool:
        """Whether a block computes several tiles, and loads the next during the epilogue."""
        return self.schedule > 0

    @property
    def knob(self) -> int:
        """The value of the knob."""
        return _KNOBS[self]


def _forms() -> dict[int, Form]:
    """Return the forms by the values of the knob."""
    both, reducing = (0, 1), MORE_CLUSTERS + 2 * len(MULTICASTING)
    small = [Form(schedule, m, s) for s in both for schedule in range(3) for m in (1, 2)]
    large = [Form(0, m, s, 2) for s in both for m in (2, 4)]
    more = [Form(0, m, s, n) for s in both for m, n in MULTICASTING]
    return {
        **dict(enumerate(small, FIRST)),
        **dict(enumerate(large, LARGE_CLUSTERS)),
        CLUSTER_REDUCE: Form(0, 1, cluster_reduce=1),
        **dict(enumerate(more, MORE_CLUSTERS)),
        **{reducing + i: Form(0, m, 0, n, 1) for i, (m, n) in enumerate(REDUCING)},
        **{SWAPPED_REDUCE + i: Form(0, m, 1, n, 1) for i, (m, n) in enumerate(SWAPPED_REDUCING)},
    }


_FORMS = _forms()
FORMS = tuple(_FORMS.values())
_KNOBS = {form: knob for knob, form in _FORMS.items()}
_PLAIN: Mapping[str, Any] = vars(Form(0, 1))
# Of each attribute, with its plain value, the values of the knob at which it is another.
_VALUES = {
    (name, plain): {v: vars(f)[name] for v, f in _FORMS.items() if vars(f)[name] != plain}
    for name, plain in _PLAIN.items()
}
