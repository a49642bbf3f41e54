"""Resources of a kernel, as ptxas reports them: registers, spills, stack, shared memory."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autotune.kernel.kernel import Kernel

_COMPILING = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")

Entries = dict[str, dict[str, int]]


def parse_ptxas(log: str) -> Entries:
    """Read the report of ``-Xptxas -v`` into one mapping for each entry point."""
    entries: Entries = {}
    current = _nothing()
    for line in log.splitlines():
        if match := _COMPILING.search(line):
            current = entries.setdefault(match.group(1), _nothing())
        elif match := _SPILLS.search(line):
            # Functions that the entry calls are listed below it; it takes what the worst takes.
            names = ("stack_bytes", "spill_store_bytes", "spill_load_bytes")
            for name, text in zip(names, match.groups(), strict=True):
                current[name] = max(current[name], int(text))
        elif match := _REGISTERS.search(line):
            current["registers"] = int(match.group(1))
            shared = _SHARED.search(line)
            current["shared_bytes"] = int(shared.group(1)) if shared else 0
    return entries


def summary(
    entries: Mapping[str, Mapping[str, int]], kernel: Kernel, symbols: Mapping[str, str]
) -> dict[str, int]:
    """Return the largest need over the launches of ``kernel``.

    ``shared_bytes`` adds the dynamic part of the launch to the static one; ``spill_bytes`` is
    stores and loads together. ``symbols`` says by which name an entry is reported.
    """
    needs: dict[str, int] = {}
    for one in kernel.calls:
        entry = dict(entries.get(symbols.get(one.entry, one.entry), {}))
        if "shared_bytes" in entry:
            entry["shared_bytes"] += one.launch.shared_bytes
        if "spill_store_bytes" in entry:
            entry["spill_bytes"] = entry["spill_store_bytes"] + entry["spill_load_bytes"]
        for name, value in entry.items():
            needs[name] = max(needs.get(name, 0), value)
    return needs


def _nothing() -> dict[str, int]:
    names = ("registers", "shared_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes")
    return dict.fromkeys(names, 0)
