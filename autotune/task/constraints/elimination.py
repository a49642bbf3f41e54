"""The order in which knobs are chosen, so that conditions reject partial choices early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set


def order_of(reads: Sequence[Set[int]], sizes: Mapping[int, int]) -> list[int]:
    """Return knobs in an order in which conditions are evaluated for few choices.

    Last is the knob that the fewest conditions read, as all of them wait for it; of those before,
    the one that the fewest of the others read, and so on: an elimination order, as of variables
    in bucket elimination (Dechter, 1999).

    Args:
        reads: the knobs that each condition reads.
        sizes: how many choices each knob has.
    """
    order: list[int] = []
    left = list(reads)
    while len(order) < len(sizes):
        rest = [knob for knob in sizes if knob not in order]
        reading = {knob: sum(knob in knobs for knobs in left) for knob in rest}
        last = min(rest, key=lambda knob: (reading[knob], -sizes[knob]))
        order.append(last)
        left = [knobs for knobs in left if last not in knobs]
    return order[::-1]
