"""Solvers on the simplex that the others build on: a quadratic program, Newton steps, sums over rows."""
