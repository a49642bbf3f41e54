"""``python -m autotune.lowering``: prints the passes over a kernel in their order."""

from autotune.lowering.passes.table import passes_text

if __name__ == "__main__":
    print(passes_text())
