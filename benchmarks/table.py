"""The README's speed tables from benchmarks/results: `python benchmarks/table.py solvers` or `training`."""

import json
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def solvers():
    lines = ["| | ratio | ours |", "|---|---|---|"]
    for row in json.loads((RESULTS / "solvers.json").read_text())["results"]:
        seconds = f"{1000 * row['ours_seconds']:.0f} ms" if "ours_seconds" in row else ""
        lines.append(f"| {row['what']} | {row['ratio']:.1f} | {seconds} |")
    return "\n".join(lines)


def training():
    epoch, sweep, inference = (
        json.loads((RESULTS / f"training-{part}.json").read_text())[part]
        for part in ("epoch", "sweep", "inference")
    )
    rows = {f"an epoch of {name}": row["ratio"] for name, row in epoch.items()}
    rows["the paper's sweep of fifty MAFs, one thread"] = sweep["ratio"]
    rows["the same on two cores"] = sweep["ratio on two threads"]
    rows |= {name: row["ratio"] for name, row in inference.items()}
    return "\n".join(
        ["| | sbi / ours |", "|---|---|", *(f"| {name} | {ratio:.1f} |" for name, ratio in rows.items())]
    )


if __name__ == "__main__":
    print({"solvers": solvers, "training": training}[sys.argv[1]]())
