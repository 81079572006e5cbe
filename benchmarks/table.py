"""Tables of README and docs from benchmarks/results: `python benchmarks/table.py`, and one of TABLES."""

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


def scaling(part):
    return json.loads((RESULTS / "scaling.json").read_text())[part]


def sizes():
    lines = [
        "| N | K | table | workers | a pass | steps | passes | whole / pass | step / pass | peak | a worker's |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in [*scaling("sizes"), *scaling("large")]:
        worker = f"{row['worker_peak_MB']:.0f} MB" if "worker_peak_MB" in row else ""
        lines.append(
            f"| {row['N']:.0e} | {row['K']} | {row['table_MB']:.2g} MB | {row['workers']} "
            f"| {row['pass_seconds']:.2g} s | {row['iterations']} | {row['passes']} | {row['stack / pass']:.1f} "
            f"| {row['step / pass']:.1f} | {row['peak_MB']:.0f} MB | {worker} |"
        )
    return "\n".join(lines)


def blocks():
    lines = ["| a block | a pass | whole / pass | peak memory | above the imports' |", "|---|---|---|---|---|"]
    for row in scaling("blocks"):
        above = row["peak_MB"] - row["imported_MB"]
        lines.append(
            f"| {row['block_MB']:.0f} MB | {row['pass_seconds']:.2g} s | {row['stack / pass']:.1f} "
            f"| {row['peak_MB']:.0f} MB | {above:.0f} MB |"
        )
    return "\n".join(lines)


TABLES = {"solvers": solvers, "training": training, "sizes": sizes, "blocks": blocks}

if __name__ == "__main__":
    print(TABLES[sys.argv[1]]())
