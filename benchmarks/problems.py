"""Simulators with bounded priors whose posteriors touch the bounds, written from their papers.

A problem is a function of the number of simulations and a generator to theta (n, d), y (n, c) and the box of the
uniform prior.
"""

import numpy as np

import drystone as ds

__all__ = ["CHOSEN_ON", "PROBLEMS", "mini_simbig", "task_problem"]


def queue(n, rng):
    """An M/G/1 queue: log quantiles of 50 times between departures (Blum & François 2010)."""
    lower, upper = np.zeros(3), np.array([10.0, 10.0, 1 / 3])
    theta = rng.uniform(lower, upper, (n, 3))
    service = theta[:, :1] + theta[:, 1:2] * rng.random((n, 50))
    arrival = np.cumsum(rng.exponential(1, (n, 50)) / np.maximum(theta[:, 2:], 1e-6), 1)
    departed, between = np.zeros(n), np.empty((n, 50))
    for i in range(50):
        departure = np.maximum(arrival[:, i], departed) + service[:, i]
        between[:, i], departed = departure - departed, departure
    return theta, np.log(np.quantile(between, np.linspace(0, 1, 5), axis=1).T), (lower, upper)


def g_and_k(n, rng):
    """A g-and-k distribution: quantiles of 100 draws (Drovandi & Pettitt 2011)."""
    lower, upper = np.zeros(4), np.full(4, 10.0)
    theta = rng.uniform(lower, upper, (n, 4))
    A, B, g, k = (theta[:, i : i + 1] for i in range(4))
    z = rng.standard_normal((n, 100))
    x = A + B * (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z
    return theta, np.arcsinh(np.quantile(x, np.linspace(0.05, 0.95, 9), axis=1).T), (lower, upper)


def ricker(n, rng):
    """Ricker's map with Poisson counts of 50 generations: moments, zeros, autocovariances (Wood 2010)."""
    lower, upper = np.array([2.0, 0.0, 4.0]), np.array([5.0, 0.6, 20.0])
    theta = rng.uniform(lower, upper, (n, 3))
    size, counts = np.ones(n), np.empty((n, 50))
    for t in range(100):
        size = np.exp(theta[:, 0]) * size * np.exp(-size + theta[:, 1] * rng.standard_normal(n))
        if t >= 50:
            counts[:, t - 50] = rng.poisson(np.clip(theta[:, 2] * size, 0, 1e6))
    root = np.sqrt(counts)
    centered, ordered = root - root.mean(1, keepdims=True), np.sqrt(np.sort(counts, 1))
    lags = [(centered[:, lag:] * centered[:, : 50 - lag]).mean(1) for lag in range(4)]
    y = np.column_stack([root.mean(1), (counts == 0).sum(1), *lags, ordered[:, [12, 25, 37, 49]]])
    return theta, y, (lower, upper)


def stochastic_volatility(n, rng):
    """Log volatility as an autoregression: moments and autocovariances of 200 log squared returns."""
    lower, upper = np.array([-2.0, 0.0, 0.05]), np.array([2.0, 0.99, 1.0])
    theta = rng.uniform(lower, upper, (n, 3))
    mean, persistence, noise = theta.T
    h, log_square = rng.standard_normal(n) * noise / np.sqrt(1 - persistence**2), np.empty((n, 200))
    for t in range(200):
        h = persistence * h + noise * rng.standard_normal(n)
        log_square[:, t] = np.log((np.exp((mean + h) / 2) * rng.standard_normal(n)) ** 2 + 1e-8)
    centered = log_square - log_square.mean(1, keepdims=True)
    lags = [(centered[:, lag:] * centered[:, : 200 - lag]).mean(1) for lag in (1, 2, 4, 8, 16)]
    return theta, np.column_stack([log_square.mean(1), centered.std(1), *lags]), (lower, upper)


def ornstein_uhlenbeck(n, rng):
    """Fifty exact steps of an Ornstein–Uhlenbeck process that starts at 3: its first steps and moments."""
    lower, upper = np.array([0.0, -2.0, 0.1]), np.array([3.0, 2.0, 2.0])
    theta = rng.uniform(lower, upper, (n, 3))
    rate, level, noise = np.maximum(theta[:, 0], 1e-4), theta[:, 1], theta[:, 2]
    decay = np.exp(-0.2 * rate)
    x, path = np.full(n, 3.0), np.empty((n, 50))
    for t in range(50):
        x = level + (x - level) * decay + noise * np.sqrt((1 - decay**2) / (2 * rate)) * rng.standard_normal(n)
        path[:, t] = x
    products = (path[:, 1:] * path[:, :-1]).mean(1)
    y = np.column_stack(
        [path.mean(1), path.std(1), np.diff(path, axis=1).std(1), path[:, :5], path[:, -1], products]
    )
    return theta, y, (lower, upper)


def mini_simbig(n, rng):
    """A small galaxy survey with 14 parameters: 30 principal components of its 903 summaries (32 cells a side)."""
    from experiments.minisimbig import MiniSimBIG

    task = MiniSimBIG(n=32)
    theta = task.prior.sample(n, rng)
    summaries = np.asarray(task.simulate(theta, rng))
    z = np.clip((summaries - summaries.mean(0)) / np.maximum(summaries.std(0), 1e-12), -6, 6)
    _, axes = np.linalg.eigh(np.cov(z.T))
    return theta, z @ axes[:, -30:], (task.prior.support.lower, task.prior.support.upper)


def task_problem(name):
    """Return a task of the library as a problem."""
    task = ds.tasks.get(name)

    def simulate(n, rng):
        theta = task.prior.sample(n, rng)
        return theta, np.asarray(task.simulate(theta, rng)), (task.prior.support.lower, task.prior.support.upper)

    return simulate


PROBLEMS = {
    "queue": queue,
    "stochastic_volatility": stochastic_volatility,
    "two_moons": task_problem("two_moons"),
    "slcp": task_problem("slcp"),
    "g_and_k": g_and_k,
    "ricker": ricker,
    "ornstein_uhlenbeck": ornstein_uhlenbeck,
    "gaussian_mixture": task_problem("gaussian_mixture"),
}

# Settings and defaults of training were chosen on these, with other seeds; the others only judge them.
CHOSEN_ON = ("queue", "stochastic_volatility", "two_moons", "slcp")
