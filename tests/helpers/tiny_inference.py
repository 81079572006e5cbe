"""Inference with small networks, few rows and few points: what is tested is the way, not the quality."""

import drystone as ds
from drystone.inference import one_call as inference

SWEEP = ds.Sweep(
    transforms=(1, 1), units=(12, 12), layers=(0, 0), bins=(4, 4), batch_size=(50, 50), learning_rate=(0.02, 0.02)
)
# Rows that stop the training and fit the weights.
ROWS = 60


def shrink(monkeypatch):
    train = inference.train
    monkeypatch.setattr(inference, "train", lambda *rows, **options: train(*rows, sweep=SWEEP, **options))
    monkeypatch.setattr(inference, "LEAST", ROWS)
    monkeypatch.setattr(inference, "POINTS", 100)
    monkeypatch.setattr(inference, "ADVICE_SECONDS", 0.0)  # none of what takes time
