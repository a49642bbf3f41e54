"""The configuration space that a template's definitions span."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from autotune.errors import SpaceError
from autotune.task.axes import Axis
from autotune.task.config_entity import ConfigEntity
from autotune.task.constraints.constraint import BoolArray, Predicate
from autotune.task.constraints.filters import holds
from autotune.task.constraints.order import bounds, nth_valid, sample_between, valid_between
from autotune.task.constraints.radix import IndexArray, IntArray, Radix
from autotune.task.constraints.valid_points import ValidPoints
from autotune.task.errors import SpaceIndexError
from autotune.task.kinds import Entity, TransformSpace
from autotune.task.knobs import Knobs, check_knob
from autotune.task.membership import check_filters, recorded_digits
from autotune.utils.check import Check, shown

# Indices among which the first valid point is looked for.
_LOOKED_AT = 2**14


class ConfigSpace(Knobs):
    """A product of knobs, less what filters reject; never enumerated.

    A point is an integer in mixed radix: the knob defined first varies fastest. Filters do not
    renumber points, so an index in an old log keeps its meaning.

    Index arrays are int64, or Python ints in an object array where `range_length` needs them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.space_map: dict[str, TransformSpace] = {}
        self._filters: list[Predicate] = []
        self._known_points: ValidPoints | None = None
        self._rng: np.random.Generator | None = None
        self._drawn: dict[str, int] = {}
        self._untuned: tuple[ConfigEntity | None, ...] = ()

    # ---- definition

    @contextmanager
    def drawing(self, rng: np.random.Generator) -> Iterator[None]:
        """Give each knob that is defined meanwhile a value at random, instead of its first."""
        self._rng = rng
        try:
            yield
        finally:
            self._rng = None
            self._drawn.clear()

    def define(self, name: str, knob: TransformSpace) -> list[Axis]:
        """Add a knob, and return its output axes.

        A list of values may be defined again, as parts of a template do that share a knob.

        Raises:
            SpaceError: the name is taken, or the knob has no values or wrong ones.
        """
        check_knob(name, knob)
        known = self.space_map.setdefault(name, knob)
        if known is not knob and not known.is_the_same(knob):
            raise SpaceError(
                f"knob {name!r}: name must be one of its own, got one that is defined already; "
                f"a second definition would change what the first one means"
            )
        self.clear_cache()
        if self._rng is not None and name not in self._drawn:
            self._drawn[name] = int(self._rng.integers(len(known)))
        return [Axis(known, i) for i in range(known.num_output)]

    def _entities(self) -> dict[str, Entity]:
        return {name: space[self._drawn.get(name, 0)] for name, space in self.space_map.items()}

    def multi_filter(self, filter: Predicate) -> None:
        """Keep only points for which ``filter(name -> entity)`` is true; may be called again.

        The filter must depend on nothing but the entities: it is called once for each combination
        of the values it reads, when the space is first used.
        """
        Check(SpaceError, "multi_filter").function("filter", filter, "a configuration")
        self._filters.append(filter)
        self.clear_cache()

    def clear_cache(self) -> None:
        """Forget what was computed from the definitions."""
        self._known_points = None

    # ---- shape

    @property
    def names(self) -> list[str]:
        """Knobs in order of definition."""
        return list(self.space_map)

    @property
    def dims(self) -> list[int]:
        """Number of values of each knob."""
        return [len(space) for space in self.space_map.values()]

    @property
    def range_length(self) -> int:
        """Number of indices, valid or not."""
        return self._points.radix.total

    @property
    def has_constraints(self) -> bool:
        """Whether there is a `multi_filter`."""
        return bool(self._filters)

    @property
    def len_is_exact(self) -> bool:
        """Whether `len` is exact; for huge spaces with intricate filters it is an estimate."""
        return self._points.count()[1]

    @property
    def valid_count(self) -> int:
        """The number of valid points; unlike ``len`` it may exceed the size of a C integer."""
        return self._points.count()[0]

    @property
    def rough_count(self) -> int:
        """The number of valid points to a few percent, in a fraction of a second.

        Tuners use it: an exact count of a large space with intricate filters takes seconds.
        """
        return self._points.about()[0]

    @property
    def count_is_known(self) -> bool:
        """Whether `rough_count` is exact."""
        return self._points.about()[1]

    def has_at_most(self, n: int) -> bool:
        """Return whether at most ``n`` points are valid, counting exactly only if it is close."""
        about, exact = self._points.about()
        if not exact and about <= 1.5 * n:  # more than an estimate may err by
            about, exact = self._points.count()
        return exact and about <= n

    def __len__(self) -> int:
        return self.valid_count

    def __bool__(self) -> bool:
        return True  # counting the points to answer "is there a space?" would be a waste

    # ---- points

    def untuned(self, choose: Callable[[], ConfigEntity | None]) -> ConfigEntity | None:
        """Return the point with which the template runs untuned; it is chosen once."""
        if not self._untuned:
            self._untuned = (choose(),)
        return self._untuned[0]

    def get(self, index: int) -> ConfigEntity:
        """Return the configuration at an index.

        Raises:
            SpaceIndexError: the index is out of range, or a filter rejects it.
        """
        if type(index) is bool or not isinstance(index, (int, np.integer)):
            raise SpaceIndexError(f"index must be a whole number, got {shown(index)}")
        points = self._points
        if not 0 <= index < points.radix.total:
            raise SpaceIndexError(
                f"Index out of range: size {points.radix.total}, got index {index}"
            )
        if not points.accepts_index(index):
            raise SpaceIndexError(
                f"Index does not correspond to a valid config: {index}; a filter rejects it, draw "
                "valid ones with config_space.sample_ints(1)"
            )
        entities = self._entities_at(points.radix.digits_of(int(index)))
        return ConfigEntity(int(index), self.code_hash, entities, space=self)

    def first_valid(self) -> ConfigEntity:
        """Return the valid point of the least index, or another if that is large.

        Raises:
            SpaceError: there is none.
        """
        index = self.get_next_index(-1, end=min(_LOOKED_AT, self.range_length))
        if index is not None:
            return self.get(index)
        return self.get(self.sample_ints(1, np.random.default_rng(0))[0])

    def point(self, digits: Sequence[int]) -> ConfigEntity | None:
        """Return the configuration with these values of the knobs; None if a filter rejects it.

        The rest of the space is not examined, so this is fast for a template that is run untuned.

        Raises:
            SpaceError: a filter fails.
        """
        strides = Radix(self.dims).strides
        index = sum(digit * stride for digit, stride in zip(digits, strides, strict=True))
        if not self._accepts(index, digits):
            return None
        return ConfigEntity(index, self.code_hash, self._entities_at(digits), space=self)

    def point_of(self, choice: Mapping[str, Entity]) -> ConfigEntity | None:
        """Return the point of a value of each knob, or None where it is not in the space."""
        digits = [
            knob.find(choice[name]) if name in choice else None
            for name, knob in self.space_map.items()
        ]
        known = [digit for digit in digits if digit is not None]
        return self.point(known) if len(known) == len(digits) else None

    def own(self, config: ConfigEntity) -> ConfigEntity:
        """Return the point that corresponds to a configuration from elsewhere, such as a log.

        Its choices are values of this space, not the values that were read from the log.

        Raises:
            SpaceError: the configuration is not in this space; the message says why.
        """
        if config.space is self:
            return config
        radix, recorded = Radix(self.dims), config.recorded
        for complete in self.completions:
            recorded = complete(recorded)
        digits = recorded_digits(config.index, recorded, self.space_map, radix)
        index = sum(digit * stride for digit, stride in zip(digits, radix.strides, strict=True))
        entities = self._entities_at(digits)
        self._check_point(config, index, entities)
        return ConfigEntity(index, self.code_hash, entities, cost=config.cost, space=self)

    def _accepts(self, index: int, digits: Sequence[int]) -> bool:
        return all(holds(each, self.space_map, digits) for each in self._filters)

    def _check_point(
        self, config: ConfigEntity, index: int, entities: Mapping[str, Entity]
    ) -> None:
        check_filters(config.index, entities, self._filters)

    def _entities_at(self, digits: Sequence[int]) -> dict[str, Entity]:
        pairs = zip(self.space_map.items(), digits, strict=True)
        return {name: space[digit] for (name, space), digit in pairs}

    def is_index_valid(self, index: int) -> bool:
        """Return whether an index is in range and no filter rejects it."""
        return 0 <= index < self.range_length and self._points.accepts_index(index)

    def is_valid(self, indices: object) -> BoolArray:
        """Return, for each index, whether it is in range and no filter rejects it."""
        given = self._points.radix.array(indices)
        inside = np.asarray((given >= 0) & (given < self.range_length), dtype=np.bool_)
        return inside & self._points.accepts(self.knobs(given))

    def knobs(self, indices: object) -> IntArray:
        """Return the digits of each index, one row an index, the first knob first."""
        return self._points.radix.digits(indices)

    def indices(self, knobs: object) -> IndexArray:
        """Return the index of each row of digits."""
        return self._points.radix.indices(knobs)

    def point2knob(self, point: int) -> list[int]:
        """Return the digits of one index."""
        return self._points.radix.digits_of(int(point))

    def knob2point(self, knob: Sequence[int]) -> int:
        """Return the index of one list of digits."""
        return int(self.indices([knob])[0])

    # ---- drawing

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        exclude: Collection[int] | IndexArray | None = None,
    ) -> IndexArray:
        """Draw up to ``n`` distinct valid indices that are not in ``exclude``, uniformly.

        Fewer come only when no more exist, or when filters too large to tabulate leave so few
        that a bounded search finds no more.
        """
        return self._points.draw(n, rng, exclude)

    def sample_ints(self, m: int, rng: np.random.Generator | None = None) -> IndexArray:
        """Draw ``m`` distinct valid indices.

        Raises:
            SpaceError: there are fewer.
        """
        Check(SpaceError, "sample_ints").whole("m", m, least=0)
        drawn = self.sample(m, rng or np.random.default_rng())
        if len(drawn) < m:
            raise SpaceError(
                f"sample_ints: asked for m={m} distinct configurations, the space has {len(drawn)}"
            )
        return drawn

    def get_rand_index(
        self,
        start: int | None = None,
        end: int | None = None,
        to_exclude: Collection[int] | None = None,
        rng: np.random.Generator | None = None,
    ) -> int:
        """Draw one valid index of ``[start, end)`` that is not in ``to_exclude``.

        Raises:
            SpaceError: there is no such index.
        """
        rng = rng or np.random.default_rng()
        first, last = bounds(self.range_length, start, end)
        excluded = set(to_exclude or ())
        if (first, last) == (0, self.range_length):
            drawn = self.sample(1, rng, excluded).tolist()
        else:
            drawn = sample_between(self._points, first, last, rng, excluded)
        if not drawn:
            raise SpaceError(f"every valid index of [{first}, {last}) is excluded")
        return int(drawn[0])

    def random_walk(self, point: int, rng: np.random.Generator | None = None) -> int:
        """Return a valid point that differs in one knob; the point itself if there is none."""
        rng = rng or np.random.default_rng()
        near = self.neighbours(point)
        return int(near[rng.integers(len(near))]) if len(near) else point

    def neighbours(self, index: int) -> IndexArray:
        """Return all valid indices that differ from ``index`` in exactly one knob."""
        here = self.knobs([index])[0]
        rows = []
        for knob, dim in enumerate(self.dims):
            moved = np.tile(here, (dim, 1))
            moved[:, knob] = np.arange(dim)
            rows.append(moved[np.arange(dim) != here[knob]])
        digits = np.concatenate([here[None, :][:0], *rows])
        return self.indices(digits[self._points.accepts(digits)])

    # ---- order

    def get_next_index(
        self, index: int, n: int = 1, start: int | None = None, end: int | None = None
    ) -> int | None:
        """Return the ``n``-th valid index after ``index`` (before it if negative), or None.

        Only indices of ``[start, end)`` count.
        """
        if n == 0:
            raise SpaceError("get_next_index: n must not be 0")
        first, last = bounds(self.range_length, start, end)
        if not self.has_constraints:
            return index + n if first <= index + n < last else None
        return nth_valid(self._points, index, n, first, last)

    def subrange_length(self, start: int, end: int) -> int:
        """Count the valid indices of ``[start, end)``."""
        first, last = bounds(self.range_length, start, end)
        if not self.has_constraints:
            return last - first
        if not self._points.counts_exactly:
            return sum(len(valid) for valid in valid_between(self._points, first, last))
        return self._points.count_below(last) - self._points.count_below(first)

    def __repr__(self) -> str:
        about = "" if self.len_is_exact else "~"
        lines = [f"ConfigSpace (len={about}{self.valid_count}, range_length={self.range_length}, "]
        lines[0] += "space_map="
        for i, (name, space) in enumerate(self.space_map.items()):
            lines.append(f"  {i:2d} {name}: {space!r}")
        return "\n".join([*lines, ")"])

    # ---- internals

    @property
    def _points(self) -> ValidPoints:
        if self._known_points is None:
            self._known_points = ValidPoints(self.space_map, self._filters)
        return self._known_points
