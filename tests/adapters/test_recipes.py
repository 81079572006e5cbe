"""The recipes of docs/members.md run."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "members.md").read_text()


@pytest.mark.filterwarnings(
    "ignore:Maximum number of epochs:UserWarning",
    "ignore:Number of:UserWarning",
)
def test_they_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    names = {}
    exec(compile(code, "docs/members.md", "exec"), names)
    assert set(names["members"]) == {"sbi", "nle", "zuko", "by hand"}
    assert names["ranks"].shape == (100, 2)
    assert names["calibration"]["prior_sbc"].sizes["draw"] == 100
