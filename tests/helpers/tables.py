"""Small tables at generic points: unequal sizes, no zeros, no ties."""

import numpy as np
from scipy.stats import norm

import drystone as ds


def make_table(K=5, N=60, S=41, d=3, seed=0, y=True, row_weights=False, names=None, points=0, likelihoods=False):
    """Gaussian members of a Gaussian posterior N(y, I): each shifted and scaled in its own way.

    With shared points the prior is N(0, 3² I), and the members may count as likelihoods that are densities of y.
    """
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(N, d))
    theta = data + rng.normal(size=(N, d))
    centre = data + 0.6 * rng.normal(size=(K, 1, d)) + 0.2 * rng.normal(size=(K, N, d))
    sd = np.exp(0.4 * rng.normal(size=(K, 1, d))) * np.ones((K, N, d))
    draws = centre[:, :, None] + sd[:, :, None] * rng.normal(size=(K, N, S, d))
    log_q = (-(((theta - centre) / sd) ** 2) / 2 - np.log(sd * np.sqrt(2 * np.pi))).sum(-1)
    names = [f"member_{k}" for k in range(K)] if names is None else names
    weights = rng.random(N) + 0.1 if row_weights else None
    shared = {}
    if points:
        at = np.concatenate([theta[:, None], data[:, None] + 2 * rng.normal(size=(N, points, d))], 1)
        z = (at - centre[:, :, None]) / sd[:, :, None]
        shared = {
            "points": at,
            "log_r": norm.logpdf(at, data[:, None], 2).sum(-1),
            "log_prior": norm.logpdf(at, 0, 3).sum(-1),
            "log_f": (-(z**2) / 2 - np.log(sd * np.sqrt(2 * np.pi))[:, :, None]).sum(-1),
            "likelihoods": dict.fromkeys(names, True) if likelihoods else {},
        }
    return ds.Table(
        theta,
        y=data if y else None,
        log_q=log_q,
        draws=draws,
        names=names,
        row_weights=weights,
        **shared,
    )
