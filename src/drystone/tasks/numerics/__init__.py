"""Numerics behind the tasks' exact posteriors."""
