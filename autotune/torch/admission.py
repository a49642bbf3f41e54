"""Which sets of shapes of a graph get a network of their own."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable

logger = logging.getLogger("autotune")
# Sets of shapes that are compiled at their first call; so many more each take one call more.
_AT_ONCE = 8


class Admission:
    """Admits sets of shapes of one graph with the same parameters by how often they came.

    As caches admit by frequency: a text that grows by a token from call to call has as many sets
    of shapes as tokens, each compiled in seconds and used once. The first eight sets are admitted
    at their first call, the next eight at their second, and so on, so that those that come often
    are compiled however many there are.
    """

    def __init__(self) -> None:
        self._calls: Counter[Hashable] = Counter()
        self._told = False

    def admits(self, networks: int, shapes_of: Callable[[], Hashable]) -> bool:
        """Count a call for which there is no network; return whether to compile one.

        Args:
            networks: how many there are of the graph with the parameters of the call.
            shapes_of: returns its parameters and shapes.
        """
        if networks < _AT_ONCE:
            return True
        shapes = shapes_of()
        self._calls[shapes] += 1
        if self._calls[shapes] > networks // _AT_ONCE:
            del self._calls[shapes]
            return True
        if not self._told:
            self._told = True
            logger.warning(
                "torch.compile(backend='autotune'): a graph came with more than %s sets of "
                "shapes, and torch runs each further one until it has come again. Pad inputs to "
                "fewer shapes, or where a cache grows with each call use one of a fixed size "
                "(transformers: generate(..., cache_implementation='static'))", _AT_ONCE
            )  # fmt: skip
        return False
