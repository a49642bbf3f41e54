"""Few long rows for CUDA: rows are split among blocks, in two passes.

With the knob ``split`` at 1 a block has a whole row, as in the plain families `rows_cuda` and
`scan_cuda`, whose other knobs the space shares. With more, the first kernel writes the state of
each range, and the second combines those of its row and writes the result: reduce-then-scan
(Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Protocol

from autotune import SourceKernel, Target

from .. import common

KNOB, SPLITS = "split", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Most rows, as many as an H100 has multiprocessors, and least elements of one, for which a split
# may pay.
FEW, LONG = 132, 8192
# Least elements of a range; where nothing was tuned, blocks that are wanted, and number of rows
# beyond which only rows of so many elements are split, as a block keeps shorter ones in registers;
# and most ranges, unless they are long.
SHORTEST, WANTED, MANY, VERY_LONG, USUAL_SPLITS = 1024, 528, 40, 32768, 256


class Shape(Protocol):
    """Rows of a plain family."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def columns(self) -> int:
        """Elements of a row."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""


def offered(shape: Shape, knobs: Container[str]) -> bool:
    """Return whether rows may be split; not where ``knobs`` were chosen before they could be."""
    before = "vec" in knobs and KNOB not in knobs
    return shape.rows <= FEW and shape.columns >= LONG and not before


def per_split(shape: Shape, split: int) -> int:
    """Return how many elements a range has; a multiple of 8 keeps 16-byte loads aligned."""
    return 8 * common.ceil_div(common.ceil_div(shape.columns, split), 8)


@dataclass(frozen=True)
class SplitRows:
    """A family of kernels of few long rows.

    Attributes:
        plain: the family whose blocks have whole rows; its `split_kernel` splits them.
        always: whether rows are split whatever their number and length: blocks keep none of them
            in registers.
    """

    # What blocks had before rows could be split: old logs stay valid.
    ADDED: ClassVar[Mapping[str, int]] = {KNOB: 1}

    plain: ModuleType
    always: bool = False

    def candidates(self, shape: Shape) -> dict[str, list[int]]:
        """Return the values each knob may take for a shape."""
        options: dict[str, list[int]] = self.plain.candidates(shape)
        return {**options, KNOB: common.up_to(shape.columns // SHORTEST, SPLITS)}

    def violation(self, shape: Shape, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run or is sure to be slow, or None."""
        split = choice[KNOB]
        columns = common.pick(split > 1, per_split(shape, split), shape.columns)
        wide = (split > 1) & (choice["rows"] > 1)
        kept = (split > 1) & (choice.get("keep", 0) > 0)
        apart = [(wide, "several split rows a block"), (kept, "a range is read twice")]
        return common.first_broken([*apart, *self.plain.rules(shape, choice, target, columns)])

    def default_choice(self, shape: Shape, target: Target) -> dict[str, int]:
        """Return a good guess: ranges of 1024 elements or more, four blocks a multiprocessor."""
        chosen: dict[str, int] = self.plain.default_choice(shape, target)
        few = self.always or shape.rows <= MANY or shape.columns >= VERY_LONG
        most = min(shape.columns // SHORTEST, WANTED // shape.rows) if few else 1
        # Of a single row more ranges pay where they are long.
        able = [n for n in SPLITS if n <= USUAL_SPLITS or shape.columns // n >= VERY_LONG // 8]
        split = max(common.up_to(most, able))
        if split == 1:
            return {**chosen, KNOB: 1}
        vec = max(self.candidates(shape)["vec"])
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
    """Return a number halved until it is at most ``most``, but not below ``least``."""
    while number > least and number > most:
        number //= 2
    return number
