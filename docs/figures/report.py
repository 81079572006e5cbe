"""Make ``report.png``, the picture in docs/report.md: ``python docs/figures/report.py``.

Trains twelve spline flows on Two Moons (about a minute), writes the report and takes its picture in a headless
Chromium, light on the left and dark on the right.
"""

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import drystone as ds

HERE = Path(__file__).parent
WIDTH, HEIGHT = 1280, 1500


def make_report(path: Path) -> None:
    """A small run, all of it."""
    task = ds.tasks.get("two_moons")
    ensemble = ds.train(*ds.simulate(task, n=2000, seed=1), members=12, family="nsf", prior=task.prior, epochs=40)

    def table(n: int, seed: int) -> ds.Table:
        theta, y = ds.simulate(task, n=n, seed=seed)
        return ds.tabulate(ensemble, theta, y, 200, keep_draws=True, seed=seed, parameters=task.parameters)

    validation, test = table(1000, 2), table(1000, 3)
    fits = {
        "log": ds.stack(validation),
        "log + 10 rank": ds.stack(validation, score=ds.LogScore() + 10 * ds.RankCvM()),
    }
    observations = [
        ds.report.observe(f"test simulation {n}", test.y[n], ensemble, fits, truth=test.theta[n], task=task)
        for n in (0, 1)
    ]
    ds.report.write(
        path,
        validation=validation,
        test=test,
        fits=fits,
        members=ensemble.frame,
        observations=observations,
        exact=task.log_posterior(test.theta, test.y),
        advice=ds.advise(fits["log"], validation, seconds=10),
        title="Two Moons: twelve spline flows",
        command="python docs/figures/report.py",
    )


def picture(report: Path, path: Path) -> None:
    """The first page in both themes, side by side, half size."""
    whole = Image.new("RGB", (WIDTH, HEIGHT // 2))
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for i, scheme in enumerate(("light", "dark")):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            page.goto(report.as_uri())
            page.screenshot(path=f"{folder}/{scheme}.png")
            half = Image.open(f"{folder}/{scheme}.png").resize((WIDTH // 2, HEIGHT // 2), Image.Resampling.LANCZOS)
            whole.paste(half, (i * WIDTH // 2, 0))
        browser.close()
    # Few colours make a small file; by coverage, so that the rare green and red marks keep theirs.
    whole.quantize(128, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        make_report(report)
        print(f"the report has {report.stat().st_size / 1e6:.2f} MB")
        picture(report, HERE / "report.png")
