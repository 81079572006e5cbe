"""A score of your own: anything differentiable in what the stacked posterior gives."""

import drystone as ds


class ScaledError(ds.RowScore):
    """Error of the stacked mean in units of the stacked spread, absolute where it is large."""

    needs = frozenset({"moments"})

    def rows(self, q):
        """A number for each simulation, (N,), as a torch tensor; lower is better."""
        variance = q.cov().diagonal(dim1=-2, dim2=-1)
        z = (q.theta - q.mean()) / variance.sqrt()
        return ((z**2 + 1).sqrt() + variance.log() / 2).sum(-1)


table = ds.toy.table(1000, seed=1)
fit = ds.stack(table, score=ScaledError())  # the generic solver differentiates it
print(fit.summary())

both = ds.stack(table, score=ds.LogScore() + 0.5 * ScaledError())  # it adds like any other
print(both)
