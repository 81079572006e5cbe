"""The report's first section, on the reader's own observation: four questions and their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drystone._messages import digits_for
from drystone.diagnostics import PosteriorAt
from drystone.diagnostics.null import ALARM, DOUBT, Check, Verdict
from drystone.plots.palette import Style
from drystone.report.pictures import Picture, pair_picture
from drystone.report.posteriors import Observation
from drystone.report.tables import Cell, Grid, grid, interval, number, with_error

__all__ = ["Answer", "YourObservation", "your_observation"]

# Members that are listed by weight.
LISTED = 8
# The posterior that a refinement began with, in pictures.
BEFORE = "before refinement"


@dataclass(frozen=True)
class Answer:
    """A question that a reader has, and its answer.

    Attributes:
        question: as a heading.
        tone: "better" for yes, "worse" for an alarm, "mixed" for a doubt, "unknown" if it was not asked.
        mark: the answer in a word or two.
        text: a sentence.
        table: the numbers behind it, or None.
        note: how to read them.
    """

    question: str
    tone: str
    mark: str
    text: str
    table: Grid | None = None
    note: str = ""


@dataclass(frozen=True)
class YourObservation:
    """All that the section shows.

    Attributes:
        tone: of the headline.
        headline: one sentence.
        answers: to the four questions and, after a refinement, to a fifth.
        estimates: mean, spread and intervals of each parameter.
        weights: of the members in use there; None for forms without.
        picture: pair plot of the draws.
        styles: of the methods in it.
    """

    tone: str
    headline: str
    answers: tuple[Answer, ...]
    estimates: Grid
    weights: Grid | None
    picture: Picture
    styles: Mapping[str, Style]


def your_observation(here: PosteriorAt, name: str, styles: Mapping[str, Style]) -> YourObservation:
    """Return the section on one observation.

    Args:
        here: from ``posterior.at(y_o)``.
        name: of the fit whose posterior it is.
        styles: of the methods.
    """
    answers = tuple(
        replace(answer, text=re.sub(r"(?<![\w\]])-(?=\d)", "−", answer.text))
        for answer in (_on_data(here), _on_members(here), _on_set(here), _on_predictions(here), *_on_change(here))
    )
    tones = [answer.tone for answer in answers[:4]]
    if here.change is not None and here.change.after.p_value < DOUBT:
        tones.append("mixed")
    if "worse" in tones:
        tone, headline = "worse", "There are reasons not to believe this posterior at your observation."
    elif "mixed" in tones:
        tone, headline = "mixed", "This posterior is in some doubt at your observation."
    elif tones[0] == "unknown":
        tone, headline = "unknown", "Nothing was checked at your observation."
    else:
        tone, headline = "better", "Nothing speaks against this posterior at your observation."
    draws = {name: here.draws}
    if here.change is not None:
        draws, styles = {BEFORE: here.change.draws, **draws}, {**styles, BEFORE: styles["members"]}
    observation = Observation("your observation", draws, bounds=here.bounds)
    picture = pair_picture(observation, here.parameters, styles)
    return YourObservation(tone, headline, answers, _estimates(here), _weights(here), picture, styles)


def _tone(p_value: float) -> tuple[str, str]:
    """Return tone and mark of a check."""
    if p_value < ALARM:
        return "worse", "No"
    return ("mixed", "Doubtful") if p_value < DOUBT else ("better", "Yes")


def _tone_of(found: Verdict) -> tuple[str, str]:
    """Return tone and mark of a question that simulations answer."""
    return ("mixed", "Too few to tell") if found.too_few else _tone(found.p_value)


def _checks(title: str, statistic: str, checks: Sequence[Check]) -> Grid:
    """Return each check with its statistic here and at simulations, and its p-value."""
    rows = [
        [each.name, each.statistic, *_null(each.null), Cell(_p(each.p_value), each.p_value)] for each in checks
    ]
    return grid(title, (statistic, "at your observation", "at simulations (median)", "90 % of them", "p"), rows)


def _on_data(here: PosteriorAt) -> Answer:
    question, found = "Is it like the simulations?", here.in_distribution
    if found is None:
        return Answer(question, "unknown", "Not checked", _missing(here, "Not checked"))
    note = (
        "p is the share of simulations that are at least as unusual. Below 0.01 the networks were trained on data "
        "unlike yours, and what they say of it is extrapolation."
    )
    table = _checks("Your data among the simulations", "statistic", found.checks)
    return Answer(question, *_tone_of(found), str(found), table, note)


def _on_members(here: PosteriorAt) -> Answer:
    question, found = "Do the members agree as much as they should?", here.disagreement
    if found is None:
        return Answer(question, "unknown", "Not checked", _missing(here, "No disagreement"))
    note = (
        "The (Jensen–Shannon) distance is 0 if all say the same. The pattern is large where members differ from "
        "each other in ways in which they do not at simulations with such parameters. Likelihoods also say how "
        "probable the data are (the evidence), and may differ in that. More than at simulations means that at "
        "least some are wrong here."
    )
    table = _checks("Disagreement of members", "statistic", found.checks)
    return Answer(question, *_tone_of(found), str(found), table, note)


def _on_set(here: PosteriorAt) -> Answer:
    found = here.credible_set
    if found is None:
        return Answer(
            "Where is θ, whatever the networks do?", "unknown", "No set", _missing(here, "No credible set")
        )
    level = f"{1 - found.alpha:.0%}".replace("%", "\u00a0%")
    question = f"Where is θ with {level} probability, whatever the networks do?"
    bounded = found.threshold > -np.inf
    like = here.in_distribution
    unlike, too_few = (like.alarm, like.too_few) if like is not None else (False, False)
    text = str(found)
    if unlike or too_few:
        yours = "yours is not" if unlike else "yours may not be"
        text += f" This holds for observations like the simulations, which {yours}."
    text = " ".join([text, *(sentence for sentence in here.missing if sentence.startswith("The set"))])
    tone = "worse" if unlike else "better" if bounded else "mixed"
    mark = "No guarantee" if unlike else "In this set" if bounded else "Unbounded"
    note = (
        "The set is where the stacked density exceeds a threshold, such that it would have held the truth of that "
        "share of simulations. Bad networks make it large, not wrong. Its extent in each parameter stands in the "
        "table of estimates."
    )
    return Answer(question, tone, mark, text, None, note)


def _on_predictions(here: PosteriorAt) -> Answer:
    question, found = "Do data simulated from the posterior look like yours?", here.predictive
    if found is None:
        return Answer(question, "unknown", "Not checked", _missing(here, "No simulated data"))
    rows = [
        [
            each.name,
            float(observed),
            float(np.median(simulated)),
            interval(ends),
            Cell(_p(each.p_value), each.p_value),
        ]
        for each, observed, simulated, ends in zip(
            found.checks, found.observed, found.simulated.T, found.interval, strict=True
        )
    ]
    head = ("summary", "yours", "simulated (median)", "90 % of them", "p")
    note = (
        "Your data were used for the posterior, so these p-values lie nearer to ½; a small one says all the more."
    )
    return Answer(
        question,
        *_tone(found.p_value),
        str(found),
        grid("Your data and data from the posterior", head, rows),
        note,
    )


def _on_change(here: PosteriorAt) -> list[Answer]:
    """Return what a refinement changed, if there was one."""
    change = here.change
    if change is None:
        return []
    rows = []
    for j, name in enumerate(here.parameters):
        columns = (draws[:, j] for draws in (change.draws, here.draws))
        moments = [f"{number(column.mean())} ± {number(column.std())}" for column in columns]
        p_values = (calibration.p_values[j] for calibration in (change.before, change.after))
        rows.append([name, *moments, *(Cell(_p(p), p) for p in p_values)])
    head = ("parameter", "before", "refined", "p before", "p refined")
    gain = change.gain
    tone = "better" if gain.value > 2 * gain.se else "worse" if gain.value < -2 * gain.se else "mixed"
    mark = {"better": "It is better", "worse": "It is worse", "mixed": "No clear difference"}[tone]
    after = "calibrated" if change.after.p_value >= DOUBT else "not calibrated"
    text = (
        f"{change.simulations:,} further simulations where the posterior is: the log score near your observation "
        f"changed by {with_error(gain, '+')} nats (a gain of 1 nat makes the truth 2.7 times as probable), on "
        f"{len(change.after.ranks)} of them that no member was trained on, and the refined posterior is {after} "
        f"there (p = {_p(change.after.p_value)})."
    )
    note = (
        "Means and standard deviations at your observation. p tests whether the truths of held-out simulations "
        "near it have uniform ranks (posterior SBC): small is miscalibrated. The log score is higher where the "
        "posterior gives the truth more probability."
    )
    table = grid("Before and after", head, rows)
    return [Answer("What did the refinement change?", tone, mark, text, table, note)]


def _null(null: np.ndarray) -> tuple[float, str]:
    low, middle, high = np.quantile(null, [0.05, 0.5, 0.95])
    return float(middle), interval((low, high))


def _p(p_value: float) -> str:
    return f"{p_value:.2g}"


def _missing(here: PosteriorAt, begin: str) -> str:
    """Return why something was not checked."""
    reasons = [sentence for sentence in here.missing if sentence.startswith(begin)]
    return (reasons or list(here.missing) or [""])[0]


def _estimates(here: PosteriorAt) -> Grid:
    region = here.credible_set
    bounds = None if region is None else region.bounds
    head = ["parameter", "mean", "standard deviation", "90 % interval"]
    head += [] if region is None else [f"{1 - region.alpha:.0%} set reaches".replace("%", " %")]
    rows = []
    for j, name in enumerate(here.parameters):
        mean, sd = float(here.mean[j]), float(here.draws[:, j].std())
        digits = digits_for(mean, sd)
        row = [name, Cell(number(mean, digits), mean), sd, interval(here.interval(0.1)[j], digits)]
        rows.append(row if bounds is None else [*row, interval(bounds[j], digits)])
    return grid("Estimates at your observation", head, rows)


def _weights(here: PosteriorAt) -> Grid | None:
    if not here.weights:
        return None
    heaviest = sorted(here.weights.items(), key=lambda item: -item[1])
    most = heaviest[0][1]
    rows = [[name, Cell(f"{w:.3f}", w, bar=w / most)] for name, w in heaviest[:LISTED]]
    if len(heaviest) > LISTED:
        rows.append([f"{len(heaviest) - LISTED} more", Cell(f"{sum(w for _, w in heaviest[LISTED:]):.3f}")])
    return grid("Members in use there", ("member", "weight"), rows)
