"""Few long rows for CUDA: ranges of a row are blocks' own, and two kernels follow each other.

One space holds both: with the knob ``split`` at 1 a row is a block's, as in the plain families
`rows_cuda` and `scan_cuda`, whose other knobs it shares. With more, the first kernel leaves what
is known of each range, and the second, which combines that for its row, writes: reduce, then scan
(Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from autotune import SourceKernel, Target

from .. import common

KNOB, SPLITS = "split", (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Rows up to which they may not fill a device, and elements from which on one is worth dividing.
FEW, LONG = 128, 8192
# Least elements of a range; where nothing was tuned, blocks that are wanted, and rows from which
# on only those of so many elements are divided, as a block keeps what is shorter.
SHORTEST, WANTED, MANY, VERY_LONG = 1024, 528, 40, 32768


class Shape(Protocol):
    """Rows that something is done to."""

    @property
    def rows(self) -> int:
        """How many."""

    @property
    def columns(self) -> int:
        """Elements of each."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""


def offered(shape: Shape, knobs: Container[str]) -> bool:
    """Return whether rows may be divided; not where ``knobs`` were chosen before they could be."""
    before = "vec" in knobs and KNOB not in knobs
    return shape.rows <= FEW and shape.columns >= LONG and not before


def per_split(shape: Shape, split: int) -> int:
    """Return how many elements a range has; a multiple of 8 keeps reads of 16 bytes aligned."""
    return 8 * common.ceil_div(common.ceil_div(shape.columns, split), 8)


@dataclass(frozen=True)
class LongRows:
    """A family of kernels over few long rows.

    Attributes:
        plain: the family whose blocks take whole rows; its `split_kernel` divides them.
        ragged: whether that keeps nothing of a row, and reads a single one in vectors that do not
            divide it; else whole rows may be read so.
    """

    plain: ModuleType
    ragged: bool = False

    def candidates(self, shape: Shape) -> dict[str, list[int]]:
        """Return the values each knob may take for a shape."""
        options: dict[str, list[int]] = self.plain.candidates(shape)
        if shape.rows == 1 and self.ragged:
            options["vec"] = [v for v in (1, 2, 4, 8) if v <= 16 // shape.element_bytes]
        return {**options, KNOB: common.up_to(shape.columns // SHORTEST, SPLITS)}

    def violation(self, shape: Shape, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run or is sure to be slow, or None."""
        split = choice[KNOB]
        columns = common.pick(split > 1, per_split(shape, split), shape.columns)
        wide = (split > 1) & (choice["rows"] > 1)
        between = (split == 1) == self.ragged
        odd = (shape.columns % choice["vec"] > 0) & between
        kept = (split > 1) & (choice.get("keep", 0) > 0)
        apart = [
            (wide, "rows side by side of a split"), (kept, "a range is read twice"),
            (odd, "vectors do not divide the row"),
        ]  # fmt: skip
        return common.first_broken([*apart, *self.plain.rules(shape, choice, target, columns)])

    def default_choice(self, shape: Shape, target: Target) -> dict[str, int]:
        """Return a good guess: ranges of 1024 elements or more, four blocks a multiprocessor."""
        chosen: dict[str, int] = self.plain.default_choice(shape, target)
        few = self.ragged or shape.rows <= MANY or shape.columns >= VERY_LONG
        most = min(shape.columns // SHORTEST, WANTED // shape.rows) if few else 1
        split = max(common.up_to(most, SPLITS))
        if split == 1:
            return {**chosen, KNOB: 1}
        options = self.candidates(shape)["vec"]
        vec = max(v for v in options if self.ragged or shape.columns % v == 0)
        most = 2 * per_split(shape, split) - 1
        threads = _halved(256, 32, most // vec)
        items = _halved(4, 1, most // (threads * vec))
        divided = {**chosen, KNOB: split, "threads": threads, "rows": 1, "vec": vec}
        return divided | ({"keep": 0} if "keep" in chosen else {"items": items})

    def kernel(self, shape: Shape, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs."""
        plain = {name: value for name, value in choice.items() if name != KNOB}
        split = choice[KNOB]
        made: SourceKernel = (
            self.plain.kernel(shape, plain)
            if split == 1
            else self.plain.split_kernel(shape, plain, split, per_split(shape, split))
        )
        return made


def _halved(number: int, least: int, most: int) -> int:
    """Return a number halved as often as it has to be for a bound, but not below the least."""
    while number > least and number > most:
        number //= 2
    return number
