"""Stack the paper's toy: four Gaussian posteriors, equally far from the truth, wrong in different ways.

Run it with ``python examples/toy.py``.
"""

import drystone as ds

# What four members say of 1000 simulations to fit the weights on, and of 2000 others to judge by.
validation, test = ds.toy.table(1000, seed=1), ds.toy.table(2000, seed=2)

# The KL-optimal mixture, with a proof of how far from the optimum it can be at most.
fit = ds.stack(validation)
print(fit.summary())

# The same with an eye on calibration, and aggregated samples, which can move and rescale.
hybrid = ds.stack(validation, score=ds.LogScore() + 10 * ds.RankCvM())
samples = ds.stack(validation, ds.SampleAggregation(), ds.EnergyScore())

# Honest numbers on untouched simulations.
print("\n", ds.compare(validation, test, {"log": fit, "log + rank": hybrid, "samples": samples}), sep="")

# One posterior to carry on with.
posterior = fit.posterior(ds.toy.MEMBERS)
low, high = posterior.interval([1.5], alpha=0.1, seed=0)[0]
print(f"\nAt y = 1.5 the truth is N(1.5, 1); the stacked 90 % interval is [{low:.2f}, {high:.2f}].")
