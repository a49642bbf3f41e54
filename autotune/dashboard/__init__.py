"""The live page: what logs hold as data for charts, a server of it, and the page itself."""

from autotune.dashboard.model import Model, snapshot
from autotune.dashboard.page import assets, one_file
from autotune.dashboard.view import View

__all__ = ["Model", "View", "assets", "one_file", "snapshot"]
