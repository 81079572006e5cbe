"""Inference with small networks, few rows and few points: what is tested is the way, not the quality."""

import sys

import drystone as ds
from drystone.inference import result

# The modules, which have the names of their functions.
infer_module, refine_module = (sys.modules[f"drystone.inference.{name}"] for name in ("infer", "refine"))

SWEEP = ds.Sweep(
    transforms=(1, 1), units=(12, 12), layers=(0, 0), bins=(4, 4), batch_size=(50, 50), learning_rate=(0.02, 0.02)
)
# Rows that stop the training and fit the weights.
ROWS = 60


def shrink(monkeypatch):
    train = infer_module.train
    monkeypatch.setattr(infer_module, "train", lambda *rows, **options: train(*rows, sweep=SWEEP, **options))
    monkeypatch.setattr(infer_module, "LEAST", ROWS)
    monkeypatch.setattr(infer_module, "POINTS", 100)
    monkeypatch.setattr(result, "ADVICE_SECONDS", 0.0)  # none of what takes time
