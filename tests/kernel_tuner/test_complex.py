"""Observers see arrays of complex numbers as such, not as pairs of floats."""

import numpy as np

from autotune.kernel_tuner import tune_kernel
from autotune.kernel_tuner.accuracy import AccuracyObserver
from autotune.kernel_tuner.observers import OutputObserver

TURN = """
void turn(float *out, const float *in, int n) {
  for (int i = 0; i < n; i += STEP)
    for (int j = i; j < i + STEP; j++) {
      out[2 * j] = -in[2 * j + 1];
      out[2 * j + 1] = in[2 * j];
    }
}
"""
IN = (np.arange(24) + 1j * np.arange(24)[::-1]).astype("complex64").reshape(6, 4)
ARGUMENTS = [np.zeros_like(IN), IN, np.int32(IN.size)]


def tune(**options):
    return tune_kernel(
        "turn", TURN, 1, ARGUMENTS, {"STEP": [1, 2]}, lang="C", iterations=1, quiet=True, **options
    )[0]


class Both(OutputObserver):
    """Resets an output, reads it, and looks at all arguments."""

    def before_start(self):
        assert self.dev.allocations[0].dtype == np.complex64
        self.dev.memcpy_htod(self.dev.allocations[0], np.full(IN.shape, 7j, "complex64"))

    def after_finish(self):
        self.read = np.zeros_like(IN)
        self.dev.memcpy_dtoh(self.read, self.dev.allocations[0])

    def process_output(self, answer, output):
        out, given, n = output
        assert (out.shape, out.dtype, given.dtype, n) == (IN.shape, IN.dtype, IN.dtype, IN.size)
        assert answer[0].dtype == np.complex64
        self.error = float(np.abs(out - answer[0]).max())

    def get_results(self):
        return {"error": self.error, "read": float(np.abs(self.read - 1j * IN).max())}


def test_an_observer_reads_and_writes_complex_arrays():
    results = tune(observers=[Both()], answer=[1j * IN, None, None])
    assert [(each["error"], each["read"]) for each in results] == [(0.0, 0.0)] * 2


def test_the_error_of_complex_results_is_that_of_both_parts():
    answer = [1j * IN + np.complex64(3 + 4j), None, None]
    for name, error in (("MAE", 3.5), ("RMSE", 12.5**0.5), ("max", 4.0)):
        results = tune(observers=[AccuracyObserver(name)], answer=answer)
        np.testing.assert_allclose([each["error"] for each in results], error, rtol=1e-6)
