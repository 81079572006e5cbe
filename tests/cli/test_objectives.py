"""Tests for drystone.cli.objectives."""

import pytest

import drystone as ds
from drystone.cli import objectives


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("log", ds.LogScore()),
        ("LogScore()", ds.LogScore()),
        ("log + 0.1*rank", ds.LogScore() + 0.1 * ds.RankCvM()),
        ("rank*0.1 + log", 0.1 * ds.RankCvM() + ds.LogScore()),
        ("2*(energy + 3*mean)", 2 * ds.EnergyScore() + 6 * ds.MeanScore()),
        ("interval(alpha=0.2)", ds.IntervalScore(alpha=0.2)),
        ("moment(diagonal=true)", ds.MomentScore(diagonal=True)),
        ("0.5*log", 0.5 * ds.LogScore()),
        ("rank_moments + js", ds.RankMoments() + ds.JensenShannon()),
    ],
)
def test_scores_are_what_their_words_say(text, expected):
    assert repr(objectives.score(text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mixture", ds.Mixture()),
        ("mixture(concentration=1.2)", ds.Mixture(concentration=1.2)),
        ("local(hidden=(8, 4))", ds.LocalMixture(hidden=(8, 4))),
        ('sample(structure="full")', ds.SampleAggregation(structure="full")),
        ("sample(structure=full)", ds.SampleAggregation(structure="full")),
        ("interval(alpha=0.2, conformal=True)", ds.IntervalAggregation(alpha=0.2, conformal=True)),
    ],
)
def test_forms_are_what_their_words_say(text, expected):
    assert objectives.form(text) == expected


@pytest.mark.parametrize("text", [repr(ds.LogScore() + 0.1 * ds.IntervalScore(alpha=0.2)), repr(ds.RankCvM())])
def test_what_a_score_prints_can_be_typed(text):
    assert repr(objectives.score(text)) == text


def test_every_score_and_form_has_a_word():
    assert set(objectives.SCORES.values()) == {kind.__name__ for kind in ds.scores.SCORES}
    assert set(objectives.FORMS.values()) == {kind.__name__ for kind in ds.forms.FORMS}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("enrgy", r"unknown score 'enrgy'; known: energy, .*Did you mean 'energy'\?"),
        ("log - rank", r"'log - rank' .* is not understood"),
        ("log * rank", r"is not understood"),
        ("-1*log", r"is not understood"),
        ("interval(0.2)", r"arguments of 'interval' must be named"),
        ("interval(alpa=0.2)", r"unknown argument of interval 'alpa'; known: alpha, scale"),
        ("rank(statistic=abs)", r"unknown argument of rank 'statistic'"),
        ("rank_moments(statistic=abs)", r"unknown argument of rank_moments 'statistic'"),
        ("interval(alpha=1/5)", r"'alpha=1 / 5' of 'interval' must be a keyword with a number"),
        ("interval(**{})", r"must be a keyword"),
        ("log +", r"'log \+' is not a score"),
        ("", r"'' is not a score"),
        ("log.rank", r"is not understood"),
        ("open(file='x')", r"unknown score 'open'"),
        ("[log]", r"is not understood"),
    ],
)
def test_anything_else_is_refused(text, match):
    with pytest.raises(ValueError, match=match):
        objectives.score(text)


def test_a_form_is_one_name():
    with pytest.raises(ValueError, match="a form is one name"):
        objectives.form("mixture + local")
