"""Compiled code, one idea per file. Everything is float32; the batch runs along the last axis of every array.

``compiled`` (how), ``blas`` (matrix products), ``network`` (the masked conditioner), ``affine`` and
``spline`` (the univariate maps), ``adam``; called from outside: ``density``, ``sampling`` and ``epoch``.
"""

from drystone._messages import require

for _module in ("numba", "threadpoolctl"):
    require(_module, "train", "a flow")
