"""Run the benchmarks that need no device, one after another: ``python -m benchmarks``.

Each script is also a command of its own with options; see ``python -m benchmarks.NAME --help``.
Those of the template library, against PyTorch's libraries, are in this folder; the others are in
folders by subject: `auto_scheduler`, `calls`, `fleet`, `live_page`, `networks`, `tuning` (what a
tuning run costs, and what tuners find), `unseen` (layers that nothing was chosen for) and
`verification`.
"""

from benchmarks.tuning import lowering, search, selection, throughput


def main() -> None:
    """Run them with their defaults, and without peers."""
    lowering.main([])
    throughput.main(["--no-peer", "--rounds", "1"])
    selection.main([])
    search.main(["--tuners", "auto", "random", "--seeds", "5", "--cap", "500"])


if __name__ == "__main__":
    main()
