"""Small tables at generic points: unequal sizes, no zeros, no ties."""

import numpy as np

import drystone as ds


def make_table(K=5, N=60, S=41, d=3, seed=0, y=True, row_weights=False, names=None):
    """Gaussian members of a Gaussian posterior N(y, I): each shifted and scaled in its own way."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(N, d))
    theta = data + rng.normal(size=(N, d))
    centre = data + 0.6 * rng.normal(size=(K, 1, d)) + 0.2 * rng.normal(size=(K, N, d))
    sd = np.exp(0.4 * rng.normal(size=(K, 1, d))) * np.ones((K, N, d))
    draws = centre[:, :, None] + sd[:, :, None] * rng.normal(size=(K, N, S, d))
    log_q = (-(((theta - centre) / sd) ** 2) / 2 - np.log(sd * np.sqrt(2 * np.pi))).sum(-1)
    return ds.Table(
        theta,
        y=data if y else None,
        log_q=log_q,
        draws=draws,
        names=names,
        row_weights=rng.random(N) + 0.1 if row_weights else None,
    )
