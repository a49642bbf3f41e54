"""autotune: a stand-alone kernel autotuner in the style of AutoTVM."""

from autotune.version import __version__

__all__ = ["__version__"]
