"""A search strategy of your own: say what to try next, and learn from what came of it.

python own_tuner.py
"""

from first_template import scale  # noqa: F401 - registers the template

import autotune


class HillClimber(autotune.tuner.Tuner):
    """Tries the neighbours of the best configuration so far, in a random order."""

    def __init__(self, task, seed=None):
        super().__init__(task, seed)
        self.seen = set()

    def has_next(self):
        """Returns whether anything is left."""
        return len(self.seen) < len(self.space)

    def next_batch(self, batch_size):
        """Returns what to measure next: up to so many configurations."""
        around = range(len(self.space))
        if self.best_config is not None:
            around = self.space.neighbours(self.best_config.index)
        fresh = [int(i) for i in around if i not in self.seen]
        if not fresh:  # a summit: go on elsewhere
            fresh = [i for i in range(len(self.space)) if i not in self.seen]
        chosen = self.rng.permutation(fresh)[:batch_size].tolist()
        self.seen.update(chosen)
        return [self.space.get(index) for index in chosen]

    def update(self, inputs, results):
        """Learns from results; the best so far is kept by `Tuner` itself."""


def main():
    """Tunes with it."""
    task = autotune.create("example.scale", args=(1000,), target="cuda -emulate")
    result = HillClimber(task, seed=0).tune(6, autotune.measure_option("local", "local"))
    print("best:", result.best_config)


if __name__ == "__main__":
    main()
