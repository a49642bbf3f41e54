"""What logs say, for people: two of them compared, figures, and one file with the whole page."""

from autotune.report.compare import Compared, Side, compare, overall

__all__ = ["Compared", "Side", "compare", "overall"]
