"""``python -m autotune`` is the ``autotune`` command."""

from autotune.cli.main import main

if __name__ == "__main__":
    main(prog_name="python -m autotune")
