"""The ready-made template library; importing it registers its tasks."""

from . import source

__all__ = ["source"]
