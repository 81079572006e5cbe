"""The page on diagnostics says what is so: its code runs."""

import re
from pathlib import Path

import matplotlib.pyplot as plt

PAGE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()


def test_its_code_runs(tmp_path, monkeypatch, capsys):
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), "diagnostics.md", "exec"), {})
    plt.close("all")
    printed = capsys.readouterr().out
    assert "L-C2ST statistic" in printed
    assert "More stacking simulations" in printed
    assert (tmp_path / "ranks.png").exists()
