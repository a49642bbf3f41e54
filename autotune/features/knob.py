"""Numbers that describe a configuration, derived from its knobs alone.

Cost models see each column of `raw_features` on the scale on which it acts, and what a
kernel engineer would compute from several: products of sizes (threads, tile areas, work per
thread) and how often a size can be halved (alignment, whole warps).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.task import ConfigSpace

FloatTable = npt.NDArray[np.float64]

# A positive column spanning at least this ratio acts by its logarithm.
LOG_RATIO = 4
# Columns with more values than this may owe their effect to how often two divides them.
FEW_VALUES = 4
# Most pairs of columns whose product becomes a feature.
MOST_PAIRS = 80


def raw_feature_names(space: ConfigSpace) -> list[str]:
    """Return one name for each column of `raw_features`."""
    return [n for name, knob in space.space_map.items() for n in knob.feature_names(name)]


def raw_features(space: ConfigSpace, indices: object) -> FloatTable:
    """Return sizes, orders, one-hot annotations and values of each index of a space, a row each.

    A knob with a value that is not a number gives one column per value.
    """
    digits = space.knobs(indices)
    knobs = enumerate(space.space_map.values())
    columns = [knob.feature_table[digits[:, k]] for k, knob in knobs]
    return np.concatenate([np.empty((len(digits), 0)), *columns], axis=1)


@dataclass(frozen=True)
class _Column:
    """The use of one raw column.

    Attributes:
        source: position in the raw features.
        low, high: range of the scaled values.
        log: whether the base-2 logarithm is taken.
        twos: whether the exponent of two in the value is taken.
    """

    source: int
    low: float
    high: float
    log: bool = False
    twos: bool = False

    def values(self, raw: FloatTable) -> FloatTable:
        column = raw[:, self.source]
        if self.twos:
            return exponent_of_two(column)
        return np.log2(np.maximum(column, 1e-9)) if self.log else column

    def unit(self, raw: FloatTable) -> FloatTable:
        """Return the values scaled to 0..1; those of other spaces may be a little outside."""
        return np.clip((self.values(raw) - self.low) / (self.high - self.low), -0.5, 1.5)


class KnobFeatures:
    """Feature matrices for the configurations of one space.

    Args:
        space: its raw columns tell which scales fit.

    Attributes:
        names: of the columns of `trees`.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._raw_names = raw_feature_names(space)
        tables = [knob.feature_table for knob in space.space_map.values()]
        values = [table[:, c] for table in tables for c in range(table.shape[1])]
        levels = [np.unique(column) for column in values]
        self._plain = [i for i, level in enumerate(levels) if len(level) > 1]
        self._smooth = [c for i in self._plain for c in _columns(i, levels[i])]
        sizes = [i for i in self._plain if levels[i][0] > 0 and len(levels[i]) > 2]
        self._pairs = _pairs(sizes, self._raw_names)
        twos = [c for c in self._smooth if c.twos]
        self._twos = [c.source for c in twos]
        self.names = [self._raw_names[i] for i in self._plain]
        self.names += [f"twos({self._raw_names[i]})" for i in self._twos]
        self.names += ["*".join(self._raw_names[i] for i in group) for group in self._pairs]

    def smooth(self, indices: object) -> FloatTable:
        """Return columns scaled to 0..1, for models that measure distances."""
        return self.smooth_of(raw_features(self._space, indices))

    def trees(self, indices: object) -> npt.NDArray[np.float32]:
        """Return plain columns, exponents of two and products, for models that compare."""
        return self.trees_of(raw_features(self._space, indices))

    def plain(self, indices: object) -> FloatTable:
        """Return the raw columns that vary."""
        return raw_features(self._space, indices)[:, self._plain]

    def smooth_of(self, raw: FloatTable) -> FloatTable:
        """As `smooth`, for raw features of this or another space."""
        columns = [column.unit(raw) for column in self._smooth]
        return np.stack(columns, axis=1) if columns else np.zeros((len(raw), 1))

    def trees_of(self, raw: FloatTable) -> npt.NDArray[np.float32]:
        """As `trees`, for raw features of this or another space."""
        logs = np.log2(np.maximum(raw, 1e-9))
        columns = [raw[:, i] for i in self._plain]
        columns += [exponent_of_two(raw[:, i]) for i in self._twos]
        columns += [logs[:, list(group)].sum(axis=1) for group in self._pairs]
        table = np.stack(columns, axis=1) if columns else np.zeros((len(raw), 1))
        return table.astype(np.float32)

    def translated(self, space: ConfigSpace, indices: object) -> FloatTable | None:
        """Return raw features of another space's points in the order of this one's columns.

        None when the other space lacks one of them: it is not of the same template.
        """
        position = {name: i for i, name in enumerate(raw_feature_names(space))}
        if any(name not in position for name in self._raw_names):
            return None
        return raw_features(space, indices)[:, [position[name] for name in self._raw_names]]


def exponent_of_two(values: npt.NDArray[np.number[Any]]) -> FloatTable:
    """Return how often each positive integer can be halved; 0 for others."""
    whole = np.where(values > 0, values, 1).astype(np.int64)
    return np.log2((whole & -whole).astype(np.float64))


def _columns(source: int, levels: FloatTable) -> list[_Column]:
    positive = levels[0] > 0
    log = bool(positive and levels[-1] / levels[0] >= LOG_RATIO)
    scaled = np.log2(levels) if log else levels
    columns = [_Column(source, float(scaled[0]), float(scaled[-1]), log=log)]
    whole = positive and len(levels) > FEW_VALUES and np.all(levels == np.round(levels))
    twos = exponent_of_two(levels) if whole else np.zeros(1)
    if whole and np.ptp(twos) > 0 and np.any(twos != np.log2(levels)):
        columns.append(_Column(source, float(twos.min()), float(twos.max()), twos=True))
    return columns


def _pairs(sizes: Sequence[int], names: Sequence[str]) -> list[tuple[int, ...]]:
    """Choose the columns to multiply: all pairs, or where there are many, those that go together.

    The parts of splits at the same position go together: they make up a thread block, the tile
    of a thread, a step of the reduction.
    """
    pairs: list[tuple[int, ...]] = list(combinations(sizes, 2))
    if len(pairs) <= MOST_PAIRS:
        return pairs
    parts = Counter(name.split("[")[0] for name in names)
    grouped: dict[tuple[int, str], list[int]] = {}
    for i in sizes:
        knob, _, position = names[i].partition("[")
        grouped.setdefault((parts[knob], position), []).append(i)
    groups = [tuple(group) for group in grouped.values() if len(group) > 1]
    within = [pair for group in groups for pair in combinations(group, 2)]
    return [*groups, *within][:MOST_PAIRS]
