"""How calls of registered functions are written: what `te` makes, and texts and loaders read."""

from __future__ import annotations

# A call of a registered function has this in front of its name and of how arguments arrive.
REGISTERED = "registered."
# How an argument arrives that is no array: as so many letters say.
INTEGER, REAL, TEXT = "i", "f", "t"
