"""Reports on logs: comparisons, figures, and the whole page as one file.

`compare` pairs the best of two logs, `draw` makes a figure of trials, and `html_report` writes the
live page with its data as one file.
"""

from autotune.report.compare import Compared, Side, compare, overall
from autotune.report.figures import PANELS, draw
from autotune.report.html_report import html_comparison, html_report
from autotune.report.reading import is_of, no_such_task, read_records

__all__ = [
    "PANELS",
    "Compared",
    "Side",
    "compare",
    "draw",
    "html_comparison",
    "html_report",
    "is_of",
    "no_such_task",
    "overall",
    "read_records",
]
