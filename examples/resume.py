"""A run that goes on: what a log already holds is not measured again.

python resume.py      # four configurations
python resume.py 6    # two more; so it is too after a Ctrl-C or a kill
"""

import sys

from first_template import scale  # noqa: F401 - registers the template

import autotune

LOG = "resumed.log"


def main(n_trial: str = "4") -> None:
    """Tunes until so many configurations are known."""
    task = autotune.create("example.scale", args=(500,), target="cuda -emulate")
    tuner = autotune.tuner.RandomTuner(task, seed=0)
    result = tuner.tune(
        int(n_trial),
        autotune.measure_option("local", "local"),
        callbacks=[autotune.callback.log_to_file(LOG)],
        resume=LOG,  # a log that is not there yet is an empty one
    )
    print(f"{tuner.resumed} known, {result.trials} in all; stopped: {result.stop_reason}")


if __name__ == "__main__":
    main(*sys.argv[1:])
