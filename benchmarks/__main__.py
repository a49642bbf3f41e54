"""Run the benchmarks that need no device, one after another: ``python -m benchmarks``.

Each is also a command of its own with options; see ``python -m benchmarks.<name> --help``.
"""

from benchmarks import lowering, search, selection, throughput


def main() -> None:
    """Run them with their defaults, and without peers."""
    lowering.main([])
    throughput.main(["--no-peer", "--rounds", "1"])
    selection.main([])
    search.main(["--tuners", "auto", "random", "--seeds", "5", "--cap", "500"])


if __name__ == "__main__":
    main()
