"""Tests for drystone.runs.config."""

import pytest

from drystone.runs import Config
from drystone.runs.config import Fit


def write(path, text):
    path.write_text(text)
    return path


def test_what_is_written_is_read_back(tmp_path):
    config = Config().changed("train", members=7, family="maf").with_fit("x", Fit(score="energy"))
    config.write(tmp_path / "config.toml")
    assert Config.read(tmp_path / "config.toml") == config


def test_a_changed_value_leaves_comments_and_other_lines(tmp_path):
    path = write(tmp_path / "config.toml", "# our moons\n[train]\nmembers = 3  # few\nepochs = 9\n")
    Config.read(path).changed("train", members=4).write(path)
    text = path.read_text()
    assert "# our moons" in text
    assert "members = 4  # few" in text
    assert Config.read(path).train.epochs == 9


def test_an_unchanged_file_is_not_written_again(tmp_path):
    path = tmp_path / "config.toml"
    Config().write(path)
    before = path.stat().st_mtime_ns
    Config.read(path).write(path)
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[trian]\n", r"unknown section 'trian'; known: fits, likelihoods, .* Did you mean 'train'\?"),
        ("[train]\nmember = 3\n", r"unknown key in \[train\] 'member'; .* Did you mean 'members'\?"),
        ("[train]\nmembers = 2.5\n", r"`train.members` must be an integer; got 2.5"),
        ("[train]\nmembers = true\n", r"`train.members` must be an integer; got True"),
        ("[train]\nlog_y = 1\n", r'`train.log_y` must be true, false or "auto"; got 1'),
        ("[train]\nmembers = 0\n", r"`train.members` must be at least 1; got 0"),
        ("[train]\nfamily = 'nfs'\n", r"unknown `train.family` 'nfs'; known: maf, nsf"),
        ("[tabulate]\nlevels = 0.5\n", r"`tabulate.levels` must be a list; got 0.5"),
        ("[tabulate]\nlevels = [5]\n", r"`tabulate.levels` must be in \(0, 1\); got \[5.0\]"),
        ("[fits]\nlog = 'log'\n", r"`fits.log` must be a section, written \[fits.log\]"),
        ("[fits]\n", r"\[fits\] must have at least one section \[fits.NAME\]; got none"),
        ("[fits.'../../evil']\n", r"'../../evil' cannot be the name of a fit"),
        ("[fits.uniform]\n", r"'uniform' cannot be the name of a fit"),
        ("[fits.exact]\n", r"'exact' cannot be the name of a fit: reports use it for the exact posterior"),
        ("[simulate]\nseed = -1\n", r"`simulate.seed` must be at least 0; got -1"),
        ("[train]\nseed = -1\n", r"`train.seed` must be at least 0; got -1"),
        ("[tabulate]\nseed = -1\n", r"`tabulate.seed` must be at least 0; got -1"),
        ("train = 3\n", r"`train` must be a section"),
        ("version = 2\n", r"has version 2; this Drystone reads version 1"),
        ("[train\n", r"config.toml is not valid TOML: .*line 1"),
    ],
)
def test_a_mistake_is_named(tmp_path, text, match):
    path = write(tmp_path / "config.toml", text)
    with pytest.raises((ValueError, TypeError), match=match):
        Config.read(path)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "best", "uniform", "exact", "x" * 201, "a\0b"])
def test_the_name_of_a_fit_must_be_able_to_name_a_file(name):
    with pytest.raises(ValueError, match="cannot be the name of a fit"):
        Config().with_fit(name, Fit())
