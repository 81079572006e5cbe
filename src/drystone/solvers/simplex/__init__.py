"""Solvers on the simplex that the others build on: a quadratic programme, Newton steps, sums over rows."""
