"""The latest record of each configuration of a log that may be larger than the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import BinaryIO, NamedTuple

from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.best import KernelTexts, TextOf, text_of
from autotune.record.codec import measure_str_key

_DIGEST_BYTES = 16


class _Contender(NamedTuple):
    """A record that counts unless a later one of its configuration does.

    Attributes:
        start: where its lines are.
        ok: whether it worked.
        text: of its kernel.
    """

    start: int
    ok: bool
    text: TextOf

    def gives_way_to(self, later: _Contender) -> bool:
        """Return whether a later record counts more, whatever texts are met after it."""
        known = self.text.raced or later.text.raced or self.ok != later.ok
        return not known and self.text[:2] == later.text[:2]


class LatestRecords:
    """Chooses the record of each configuration that counts, see `compaction.compact`.

    Args:
        spool: an empty file, where records wait; in memory are only their places.
        encode: returns the lines of a record, with their newlines.

    Attributes:
        read: how many records were added.
    """

    def __init__(
        self, spool: BinaryIO, encode: Callable[[MeasureInput, MeasureResult], str]
    ) -> None:
        self.read = 0
        self._spool = spool
        self._encode = encode
        self._end = 0
        self._texts = KernelTexts()
        # Most have one.
        self._held: dict[bytes, tuple[_Contender, ...]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, pair: Pair) -> None:
        """Take in the next record of the log."""
        inp, result = pair
        key = blake2b(measure_str_key(inp).encode(), digest_size=_DIGEST_BYTES).digest()
        new = _Contender(self._end, result.ok, text_of(pair))
        self._texts.add_text(new.text)
        held = self._held.get(key, ())
        self._held[key] = (*(one for one in held if not one.gives_way_to(new)), new)
        lines = self._encode(inp, result).encode()
        # Its length is written too, as lines of a record may be several.
        self._spool.write(len(lines).to_bytes(8, "big") + lines)
        self._end += 8 + len(lines)
        self.read += 1

    def lines(self) -> Iterator[str]:
        """Yield the lines of those that count, in the order in which configurations came first."""
        for held in self._held.values():
            self._spool.seek(max(held, key=self._rank).start)
            length = int.from_bytes(self._spool.read(8), "big")
            yield self._spool.read(length).decode()

    def _rank(self, one: _Contender) -> tuple[bool, bool, int]:
        return not self._texts.is_older_text(one.text), one.ok, one.start
