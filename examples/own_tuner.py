"""A search strategy of your own: say what to try next, and learn from what came of it.

python own_tuner.py
"""

from collections.abc import Iterable, Sequence

from first_template import scale  # noqa: F401 - registers the template

import autotune


class HillClimber(autotune.tuner.Tuner):
    """Tries the neighbours of the best configuration so far, in a random order."""

    def __init__(self, task: autotune.Task, seed: int | None = None) -> None:
        super().__init__(task, seed)
        self.seen: set[int] = set()

    def has_next(self) -> bool:
        """Returns whether anything is left."""
        return len(self.seen) < len(self.space)

    def next_batch(self, batch_size: int) -> Sequence[autotune.ConfigEntity]:
        """Returns what to measure next: up to so many configurations."""
        around: Iterable[int] = range(len(self.space))
        if self.best_config is not None:
            best = autotune.ConfigEntity.of(self.best_config)
            around = self.space.neighbours(best.index)
        fresh = [int(i) for i in around if i not in self.seen]
        if not fresh:  # a summit: go on elsewhere
            fresh = [i for i in range(len(self.space)) if i not in self.seen]
        chosen = self.rng.permutation(fresh)[:batch_size].tolist()
        self.seen.update(chosen)
        return [self.space.get(index) for index in chosen]

    def update(
        self,
        inputs: Sequence[autotune.MeasureInput],
        results: Sequence[autotune.MeasureResult],
    ) -> None:
        """Learns from results; the best so far is kept by `Tuner` itself."""


def main() -> None:
    """Tunes with it."""
    task = autotune.create("example.scale", args=(1000,), target="cuda -emulate")
    result = HillClimber(task, seed=0).tune(6, autotune.measure_option("local", "local"))
    print("best:", result.best_config)


if __name__ == "__main__":
    main()
