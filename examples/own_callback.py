"""Something of yours that watches a run: any function of the tuner, inputs and results.

python own_callback.py
"""

from collections.abc import Sequence

from first_template import scale  # noqa: F401 - registers the template

import autotune


class Ledger:
    """Prints each trial as it comes, and what came of the run."""

    def __call__(
        self,
        tuner: autotune.tuner.Tuner,
        inputs: Sequence[autotune.MeasureInput],
        results: Sequence[autotune.MeasureResult],
    ) -> None:
        """Is called with each group of trials that has ended."""
        for inp, result in zip(inputs, results, strict=True):
            time = f"{result.seconds * 1e6:9.1f} us" if result.ok else f"error {result.error_no}"
            print(time, inp.config)

    def tuned(self, tuner: autotune.tuner.Tuner, result: autotune.tuner.TuneResult) -> None:
        """Is called once, at the end, however the run ended; this method may be left out."""
        print("ended:", result.stop_reason)


def main() -> None:
    """Watches a short run."""
    task = autotune.create("example.scale", args=(1000,), target="cuda -emulate")
    tuner = autotune.tuner.RandomTuner(task, seed=0)
    tuner.tune(4, autotune.measure_option("local", "local"), callbacks=[Ledger()])


if __name__ == "__main__":
    main()
