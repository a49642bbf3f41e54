"""Packs of tuned records: the one that ships, those of a folder, and those behind a URL.

`packs` lists what an index has, `make_pack` adds to a folder, and a `PackContext` gives templates
the configurations; `autotune hub` is the command.
"""

from autotune.hub.context import PackContext, provide
from autotune.hub.packs import INDEX, Pack, log_of, make_pack, of_arch, packs

__all__ = ["INDEX", "Pack", "PackContext", "log_of", "make_pack", "of_arch", "packs", "provide"]
