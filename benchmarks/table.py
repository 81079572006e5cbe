"""The README's speed table from benchmarks/results/solvers.json: `python benchmarks/table.py`."""

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "solvers.json"


def markdown():
    lines = ["| | ratio | ours |", "|---|---|---|"]
    for row in json.loads(RESULTS.read_text())["results"]:
        seconds = f"{1000 * row['ours_seconds']:.0f} ms" if "ours_seconds" in row else ""
        lines.append(f"| {row['what']} | {row['ratio']:.1f} | {seconds} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
