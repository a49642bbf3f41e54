"""Gaussian process regression for a few hundred trials, in numpy.

The kernel is Matern 3/2 with one length scale a feature, found by maximum a posteriori (Rasmussen
and Williams, "Gaussian Processes for Machine Learning", 2006). Unlike trees it estimates its own
uncertainty, and it learns which knobs matter from a dozen trials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]

# Bounds of log inverse squared length scales, of the log signal and of the log noise variance.
BOUNDS_WEIGHT, BOUNDS_SIGNAL, BOUNDS_NOISE = (-6.0, 7.0), (-3.0, 3.0), (-9.0, 1.0)
# Noise that is always there, so that nearly equal configurations stay solvable.
JITTER = 1e-4
# Rows that hyperparameters are fitted to, and iterations of the fit.
_MOST_ROWS, _ITERATIONS = 120, 15
# Initial capacity of a posterior in trials.
ROOM = 64


@dataclass(frozen=True)
class HyperPrior:
    """Prior of the hyperparameters, as normal distributions of their logarithms.

    Attributes:
        weight: mean of the log inverse squared length scales.
        spread: standard deviation of it.
        noise: mean of the log noise variance.
    """

    weight: float = 0.5
    spread: float = 2.0
    noise: float = -4.6


class GaussianProcess:
    """Hyperparameters, and how to find them.

    Args:
        features: number of columns.
        prior: of the hyperparameters.
    """

    def __init__(self, features: int, prior: HyperPrior | None = None) -> None:
        prior = prior or HyperPrior()
        self.features = features
        self._mean = np.r_[np.full(features, prior.weight), 0.0, prior.noise]
        self._spread = np.r_[np.full(features, prior.spread), 1.5, 2.0]
        self._bounds = [BOUNDS_WEIGHT] * features + [BOUNDS_SIGNAL, BOUNDS_NOISE]
        self._log = self._mean.copy()

    @property
    def signal(self) -> float:
        """Variance of the function."""
        return float(np.exp(self._log[-2]))

    @property
    def noise(self) -> float:
        """Variance of what is measured around it."""
        return float(np.exp(self._log[-1])) + JITTER

    def scaled(self, x: Float) -> Single:
        """Divide each feature by its length scale.

        Raises:
            ValueError: a feature is infinite or no number.
        """
        _check_finite(x)
        return np.asarray(x * np.exp(0.5 * self._log[:-2]), dtype=np.float32)

    def fit(self, x: Float, y: Float, rng: np.random.Generator) -> None:
        """Find hyperparameters for standardised ``y``, starting from the last ones.

        Of many rows, the best half and random others are used.

        Raises:
            ValueError: a number is infinite or none.
        """
        _check_finite(x)
        _check_finite(y)
        if len(y) > _MOST_ROWS:
            order = np.argsort(-y)
            half = _MOST_ROWS // 2
            others = rng.choice(order[half:], _MOST_ROWS - half, replace=False)
            kept = np.r_[order[:half], others]
            x, y = x[kept], y[kept]
        squares = (x[:, None] - x[None]) ** 2
        from scipy.optimize import minimize  # takes half a second to load

        found = minimize(
            self._loss, self._log, args=(squares.reshape(-1, x.shape[1]), y), jac=True,
            method="L-BFGS-B", bounds=self._bounds, options={"maxiter": _ITERATIONS},
        )  # fmt: skip
        self._log = np.asarray(found.x)

    def _loss(self, log: Float, squares: Float, y: Float) -> tuple[float, Float]:
        """Return the negative log posterior and its gradient."""
        n = len(y)
        weights, signal, noise = np.exp(log[:-2]), np.exp(log[-2]), np.exp(log[-1])
        distance = np.sqrt(3.0 * np.maximum(squares @ weights, 0.0)).reshape(n, n)
        decay = np.exp(-distance)
        shape = (1.0 + distance) * decay
        covariance = signal * shape
        covariance.flat[:: n + 1] += noise + JITTER
        lower = np.linalg.cholesky(covariance)
        from scipy.linalg import solve_triangular

        inverse_lower = solve_triangular(lower, np.eye(n), lower=True, check_finite=False)
        inverse = inverse_lower.T @ inverse_lower
        alpha = inverse @ y
        slope = 0.5 * (inverse - np.outer(alpha, alpha))
        z = (log - self._mean) / self._spread
        loss = 0.5 * y @ alpha + np.log(np.diag(lower)).sum() + 0.5 * z @ z
        gradient = z / self._spread
        by_distance = (slope * (-1.5 * signal * decay)).reshape(-1)
        gradient[:-2] += (by_distance @ squares) * weights
        gradient[-2] += (slope * covariance).sum() - np.trace(slope) * (noise + JITTER)
        gradient[-1] += np.trace(slope) * noise
        return float(loss), gradient

    def covariance(self, a: Single, b: Single) -> Single:
        """Return the covariance of scaled rows."""
        squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2.0 * finite_product(a, b.T)
        return self._matern(squares)

    def _matern(self, squares: Single) -> Single:
        """Turn squared distances into covariances, in place."""
        np.maximum(squares, 0.0, out=squares)
        squares *= np.float32(3.0)
        distance = np.sqrt(squares, out=squares)
        decay = np.exp(-distance)
        distance += np.float32(1.0)
        distance *= decay
        distance *= np.float32(self.signal)
        return distance


def _check_finite(numbers: Float) -> None:
    if not np.isfinite(numbers).all():
        raise ValueError("features and values must be finite; NaN or infinity came")


def finite_product(a: Single, b: Single) -> Single:
    """Multiply matrices, or vectors, of finite numbers in single precision.

    OpenBLAS (seen in 0.3.31 with AVX-512, matrices of five columns) also computes in lanes it did
    not initialise. A signalling NaN left there raises the flag of an invalid operation, which
    NumPy reports, although every product is right: no word on the result, no reason to warn.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(a @ b)


def factor(covariance: Float, noise: float) -> Float:
    """Return the Cholesky factor of a covariance with noise on its diagonal.

    In single precision a covariance is rounded by more than the least noise when length scales
    are short: then there is as much noise as it takes.
    """
    own = covariance.diagonal().copy()
    while True:
        covariance.flat[:: len(own) + 1] = own + noise
        try:
            return np.asarray(np.linalg.cholesky(covariance))
        except np.linalg.LinAlgError:
            noise *= 4.0


class Posterior:
    """A process conditioned on trials, over a pool of candidates; grows trial by trial.

    Args:
        process: with its hyperparameters found.
        known: features of the trials.
        pool: features of the candidates.
    """

    def __init__(self, process: GaussianProcess, known: Float, pool: Float) -> None:
        self._process = process
        n, m = len(known), len(pool)
        self._count = n
        self._known: Single = process.scaled(known)
        self._pool: Single = process.scaled(pool)
        covariance = process.covariance(self._known, self._known).astype(np.float64)
        # Grown in place: allocated for more trials, filled up to `_count`.
        self._lower: Float = np.zeros((n + ROOM, n + ROOM))
        self._lower[:n, :n] = factor(covariance, process.noise)
        self._rows: Single = np.empty((n + ROOM, m), dtype=np.float32)
        self._rows[:n] = self._solved(self._pool)
        signal = process.signal
        self.variance: Float = np.maximum(signal - (self._rows[:n] ** 2).sum(0), 1e-6)

    def _solved(self, pool: Single) -> Single:
        cross = self._process.covariance(self._known, pool)
        lower = self._lower[: self._count, : self._count].astype(np.float32)
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(lower, cross, lower=True, check_finite=False))

    def __len__(self) -> int:
        return self._count

    def append(self, known: Float) -> None:
        """Condition on more trials; costs a pass over the pool for each."""
        for row in self._process.scaled(known):
            self._append(row[None])

    def _append(self, row: Single) -> None:
        n = self._count
        if n == len(self._lower):
            self._lower = np.pad(self._lower, ((0, ROOM), (0, ROOM)))
            more = np.empty((ROOM, self._rows.shape[1]), dtype=np.float32)
            self._rows = np.concatenate([self._rows, more])
        cross = self._process.covariance(self._known, row)[:, 0].astype(np.float64)
        below = self._forward(cross)
        total = self._process.signal + self._process.noise
        corner = float(np.sqrt(max(float(total - below @ below), JITTER)))
        self._lower[n, :n], self._lower[n, n] = below, corner
        new = self._process.covariance(row, self._pool)[0]
        new -= finite_product(below.astype(np.float32), self._rows[:n])
        new /= np.float32(corner)
        self._rows[n] = new
        self._known = np.concatenate([self._known, row])
        self._count = n + 1
        self.variance = np.maximum(self.variance - new**2, 1e-6)

    def _forward(self, values: Float) -> Float:
        """Solve for one right-hand side; LAPACK is called directly: many are small."""
        n = len(values)
        # The transpose of a C-ordered lower matrix is the Fortran-ordered upper one.
        from scipy.linalg.lapack import dtrtrs

        solved, info = dtrtrs(self._lower[:n, :n].T, values, lower=0, trans=1)
        assert info == 0, "a Cholesky factor has no zero on its diagonal"
        return np.asarray(solved)

    def widen(self, pool: Float) -> None:
        """Add candidates."""
        more, n = self._process.scaled(pool), self._count
        rows = np.empty((len(self._rows), len(more)), dtype=np.float32)
        rows[:n] = self._solved(more)
        self._pool = np.concatenate([self._pool, more])
        self._rows = np.concatenate([self._rows, rows], axis=1)
        variance = np.maximum(self._process.signal - (rows[:n] ** 2).sum(0), 1e-6)
        self.variance = np.concatenate([self.variance, variance])

    def mean(self, y: Float) -> Float:
        """Return the expectation at each candidate, given the values of all trials so far."""
        z = self._forward(y).astype(np.float32)
        return finite_product(z, self._rows[: self._count]).astype(np.float64)
