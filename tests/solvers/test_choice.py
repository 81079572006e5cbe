"""Which of several fits is taken, by rows left out of them."""

import numpy as np
import pytest

import drystone as ds
from drystone.forms.view import JoinedView, view_of
from drystone.solvers.choice import BEST, MIXTURE, UNIFORM, Candidate, choose, do_little
from helpers.tables import make_table


def weighted(w):
    return Candidate(ds.Mixture(), {"weights": np.asarray(w, float)})


@pytest.mark.parametrize(
    "score", [ds.RankMoments(), ds.RankCvM(), ds.EnergyScore(), ds.RankCvM() + ds.MeanScore()]
)
def test_candidates_are_judged_on_all_rows_together(score):
    """Of candidates that are not fitted the loss is the score itself, also where that is no mean over parts."""
    table = make_table(K=2, N=90, S=20, seed=4)
    candidates = {UNIFORM: weighted([0.5, 0.5]), BEST: weighted([1, 0])}
    losses = choose(table, lambda rows: candidates, score, 5, 0).losses
    for name, candidate in candidates.items():
        whole = float(score(view_of(candidate.form, candidate.params, table)))
        assert losses[name] == pytest.approx(whole, rel=0.02 if isinstance(score, ds.EnergyScore) else 1e-9)


@pytest.mark.parametrize("score", [ds.RankCvM(), ds.EnergyScore(), ds.MeanScore(), ds.MomentScore()])
def test_the_mixture_is_among_the_ways_of_doing_little_and_the_best_of_them_on_its_rows(score):
    table = make_table(K=4, N=120, S=20, seed=3)
    ways = do_little(table, score, seed=0)
    losses = {name: float(score(view_of(way.form, way.params, table))) for name, way in ways.items()}
    assert list(losses) == [UNIFORM, BEST, MIXTURE]
    assert losses[MIXTURE] <= min(losses.values()) + 1e-9


def test_aggregated_samples_that_gain_nothing_are_left_for_the_mixture():
    toy = ds.toy.table(300, seed=1, draws=30)
    fit = ds.stack(toy, ds.SampleAggregation(), ds.MeanScore())
    assert fit.choice == MIXTURE
    np.testing.assert_allclose(fit.weights, ds.stack(toy, score=ds.MeanScore()).weights, atol=1e-3)
    assert "took: mixture (" in fit.notes[0]


def test_joined_views_are_their_parts_one_after_the_other():
    table = make_table(K=3, N=50, S=20, seed=2)
    w, order = np.array([0.2, 0.3, 0.5]), np.random.default_rng(0).permutation(50)
    parts = [view_of(ds.Mixture(), {"weights": w}, table.select(rows=rows)) for rows in np.split(order, [20])]
    joined = JoinedView(table.select(rows=order), parts)
    whole = view_of(ds.Mixture(), {"weights": w}, table.select(rows=order))
    for score in (ds.LogScore(), ds.RankCvM(), ds.RankMoments(), ds.MomentScore(), ds.MeanScore()):
        assert float(score(joined)) == pytest.approx(float(score(whole)), rel=1e-12)
    for score in (ds.IntervalScore(), ds.EnergyScore()):
        assert float(score(joined)) == pytest.approx(float(score(whole)), rel=1e-9)
