"""Tables of README and docs from benchmarks/results: `python benchmarks/table.py`, and one of TABLES."""

import json
import runpy
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def solvers():
    lines = ["| | ratio | ours |", "|---|---|---|"]
    for row in json.loads((RESULTS / "solvers.json").read_text())["results"]:
        seconds = f"{1000 * row['ours_seconds']:.0f} ms" if "ours_seconds" in row else ""
        lines.append(f"| {row['what']} | {row['ratio']:.1f} | {seconds} |")
    return "\n".join(lines)


def peers():
    lines = ["| N | K | peer | peer / ours | its loss − ours |", "|---|---|---|---|---|"]
    for row in json.loads((RESULTS / "peers.json").read_text()):
        excess = "0" if abs(row["excess"]) < 1e-12 else f"{row['excess']:.0e}"
        lines.append(f"| {row['N']:,} | {row['K']} | {row['peer']} | {row['ratio']:.1f} | {excess} |")
    return "\n".join(lines)


def training():
    epoch, sweep, inference = (
        json.loads((RESULTS / f"training-{part}.json").read_text())[part]
        for part in ("epoch", "sweep", "inference")
    )
    rows = {f"an epoch of {name}": row["ratio"] for name, row in epoch.items()}
    rows["the paper's sweep of fifty MAFs, one thread"] = sweep["ratio"]
    rows["the same, ours on two threads, sbi on one"] = sweep["ratio on two threads"]
    rows |= {name: row["ratio"] for name, row in inference.items()}
    return "\n".join(
        ["| | sbi / ours |", "|---|---|", *(f"| {name} | {ratio:.1f} |" for name, ratio in rows.items())]
    )


def others():
    """Epochs against zuko and flowjax, all three measured in one run."""
    table = json.loads((RESULTS / "training-others.json").read_text())["others"]
    lines = ["| an epoch of | zuko / ours | flowjax / ours | ours |", "|---|---|---|---|"]
    for name, row in table.items():
        ratios = " | ".join(f"{row[f'{peer} / drystone']:.1f}" for peer in ("zuko", "flowjax"))
        lines.append(f"| {name} | {ratios} | {1000 * row['drystone']:.0f} ms |")
    return "\n".join(lines)


def scaling(part):
    return json.loads((RESULTS / "scaling.json").read_text())[part]


def sizes():
    lines = [
        "| N | K | table | workers | a pass | steps | passes | whole / pass | step / pass | clock | load | peak "
        "| worker's |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in [*scaling("sizes"), *scaling("large")]:
        worker = f"{row['worker_peak_MB']:.0f} MB" if "worker_peak_MB" in row else ""
        lines.append(
            f"| {row['N']:,} | {row['K']} | {row['table_MB']:,.1f} MB | {row['workers']} "
            f"| {row['pass_seconds']:.2g} s | {row['iterations']} | {row['passes']} | {row['stack / pass']:.1f} "
            f"| {row['step / pass']:.1f} | {row['seconds']:.2g} s | {row['load']:.0f} | {row['peak_MB']:.0f} MB "
            f"| {worker} |"
        )
    return "\n".join(lines)


def billion():
    """A hundred times the ten million rows that were measured, on a hundred cores."""
    row, times, cores, bandwidth, task = scaling("large")[0], 100, 100, 10e9, 1e-3
    size = 8.0 * row["N"] * times * row["K"]
    blocks = row["N"] * times / 2**17
    whole = row["pass_seconds"] * row["stack / pass"]
    reads = row["passes"] + 1
    reading, computing = reads * size / bandwidth, whole * times / cores
    return "\n".join(
        [
            f"- **Data.** 10⁹ rows × {row['K']} members × 8 bytes = {size / 1e9:.0f} GB, in 10⁹ / 131,072 = "
            f"{blocks:,.0f} blocks of {8 * row['K'] * 2**17 / 1e6:.0f} MB.",
            f"- **Computing.** 10⁷ rows took {row['pass_seconds']:.1f} s of processor time a pass and "
            f"{row['stack / pass']:.1f} times that in all: {whole:.0f} s. A hundred times as much is "
            f"{whole * times / 3600:.1f} core hours, or {computing:.0f} s on {cores} cores.",
            f"- **Reading.** {row['passes']} passes, and one for the rows it is begun on: {reads} × "
            f"{size / 1e9:.0f} GB. A file system that gives {bandwidth / 1e9:.0f} GB/s to all workers together "
            f"needs {reading:.0f} s.",
            f"- **Scheduling.** {reads} × {blocks:,.0f} tasks at about {1e3 * task:.0f} ms each in Dask's "
            f"scheduler: {reads * blocks * task:.0f} s, while the workers read.",
            f"- **Altogether** about {(reading + computing) / 60:.0f} minutes, most of it reading.",
        ]
    )


def blocks():
    lines = ["| a block | a pass | whole / pass | peak memory | above the imports' |", "|---|---|---|---|---|"]
    for row in scaling("blocks"):
        above = row["peak_MB"] - row["imported_MB"]
        lines.append(
            f"| {row['block_MB']:.0f} MB | {row['pass_seconds']:.2g} s | {row['stack / pass']:.1f} "
            f"| {row['peak_MB']:.0f} MB | {above:.0f} MB |"
        )
    return "\n".join(lines)


def heavy_tails():
    lines = ["| problem | posteriors | likelihoods |", "|---|---|---|"]
    for name, row in json.loads((RESULTS / "heavy_tails.json").read_text()).items():
        chosen = "" if row["judged"] else " (chosen on)"
        gains = " | ".join(gain(row[target]) for target in ("posterior", "likelihood"))
        lines.append(f"| {name.replace('_', ' ')}{chosen} | {gains} |")
    return "\n".join(lines)


def trend():
    """What taking linear trends away gains, and in how many columns with the most simulations."""
    rows = json.loads((RESULTS / "trend.json").read_text())
    sizes = sorted({int(n) for row in rows.values() for n in row if n.isdigit()})
    lines = [f"| problem | columns | {' | '.join(f'{n:,}' for n in sizes)} |", "|---|---|" + "---|" * len(sizes)]
    for name, row in rows.items():
        chosen, last = "" if row["judged"] else " (chosen on)", row[str(sizes[-1])]
        gains = " | ".join(gain(row[str(n)]) for n in sizes)
        lines.append(f"| {name.replace('_', ' ')}{chosen} | {last['columns']} of {last['of']} | {gains} |")
    return "\n".join(lines)


def bounds():
    """Means over seeds of the gains of the default map; in the docs the standard errors would hide the table."""
    cells = {}
    for key, row in json.loads((RESULTS / "bounds.json").read_text()).items():
        name, n, _ = key.split()
        for way in ("over logarithms", "over restricted"):
            cells.setdefault((name, row["judged"]), {}).setdefault((way, int(n)), []).append(row[way]["gain"])
    sizes = sorted({n for row in cells.values() for _, n in row})
    columns = [(way, n) for way in ("over logarithms", "over restricted") for n in sizes]
    lines = [
        f"| problem | {' | '.join(f'{way}, {n:,}' for way, n in columns)} |",
        "|---|" + "---|" * len(columns),
    ]
    for (name, judged), row in sorted(cells.items(), key=lambda item: item[0][1]):
        means = (f"{sum(row[c]) / len(row[c]):+.3f}".replace("-", "−") if c in row else "" for c in columns)
        lines.append(f"| {name.replace('_', ' ')}{'' if judged else ' (chosen on)'} | {' | '.join(means)} |")
    return "\n".join(lines)


def bounds_stacks():
    lines = [
        "| problem | median: mapped | restricted | default | stack: default − mapped | default − restricted |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in json.loads((RESULTS / "bounds-stacks.json").read_text()).items():
        chosen = "" if row["judged"] else " (chosen on)"
        medians = " | ".join(f"{value:.3f}".replace("-", "−") for value in row["median"].values())
        gains = " | ".join(gain(row[f"over {way}"]) for way in ("map", "restrict"))
        lines.append(f"| {name.replace('_', ' ')}{chosen} | {medians} | {gains} |")
    return "\n".join(lines)


def augment():
    labels = {
        "slcp": "SLCP, the four points permuted in every epoch",
        "slcp, averaged": "SLCP, density averaged over the 24 permutations",
        "slcp, augmented, averaged": "both, over permuting alone",
        "decay": "decaying signal, noise drawn again in every epoch",
    }
    rows = json.loads((RESULTS / "augment.json").read_text())
    return "\n".join(
        ["| | gain of a member |", "|---|---|", *(f"| {labels[key]} | {gain(row)} |" for key, row in rows.items())]
    )


def gain(row):
    """Return a paired gain with its standard error."""
    return "0" if row["gain"] == row["se"] == 0 else f"{row['gain']:+.3f} ± {row['se']:.3f}".replace("-", "−")


def fast():
    """The README's rows, a choice of the tables above: the closest peer, and the most common one."""
    weights = {(row["K"], row["peer"]): row for row in json.loads((RESULTS / "peers.json").read_text())}
    solved = {row["what"]: row for row in json.loads((RESULTS / "solvers.json").read_text())["results"]}
    epoch, inference, compiled = (
        json.loads((RESULTS / f"training-{part}.json").read_text())[part]
        for part in ("epoch", "inference", "others")
    )
    em, flow = weights[1000, "EM, 1000 steps"], "nsf T=5 H=50 L=2 B=50"
    rows = {
        "weights by log score, K=100, N=1000: R mixsqp": weights[100, "mixsqp (R)"]["ratio"],
        "weights by log score, K=1000, N=10,000: R mixsqp": weights[1000, "mixsqp (R)"]["ratio"],
        f"the same, {em['excess']:.0e} nats worse: EM": em["ratio"],
        "interval end, K=100, N=10,000: HiGHS": solved["interval end, N=10000, K=100: HiGHS / ours"]["ratio"],
        "an epoch of a spline flow, 10,000 simulations: sbi 0.27": epoch[flow]["ratio"],
        "the same: flowjax 19, compiled": compiled[flow]["flowjax / drystone"],
        "a million draws, 1000 at each of 1000 data sets: sbi 0.27": inference["sample 1000 x 1000"]["ratio"],
    }
    lines = (f"| {name} | {ratio:.1f} |" for name, ratio in rows.items())
    return "\n".join(["| | theirs / ours |", "|---|---|", *lines])


def harm():
    """What every default gains over doing little."""
    results = json.loads((RESULTS / "do_no_harm.json").read_text())["results"]
    return runpy.run_path(str(Path(__file__).parent / "do_no_harm.py"))["table"](results)


TABLES = {
    "harm": harm,
    "fast": fast,
    "solvers": solvers,
    "peers": peers,
    "training": training,
    "others": others,
    "bounds": bounds,
    "bounds_stacks": bounds_stacks,
    "heavy_tails": heavy_tails,
    "trend": trend,
    "augment": augment,
    "sizes": sizes,
    "blocks": blocks,
    "billion": billion,
}

if __name__ == "__main__":
    print(TABLES[sys.argv[1]]())
