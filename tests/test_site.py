"""The site builds without a warning; without a network its equations render and its search finds what is asked."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DOCS = Path(__file__).parent.parent / "docs"

# What a new user types into the search of any page, and a page that must be among the first hits.
TASKS = {
    "install": "start",
    "sbi": "members",
    "likelihood": "members",
    "bayesflow": "members",
    "npz": "members",
    "leakage": "members",
    "intervals": "forms/interval",
    "conformal": "forms/interval",
    "calibration": "diagnostics",
    "coverage": "diagnostics",
    "certificate": "faq",
    "slurm": "cluster",
    "dask": "cluster",
    "pickle": "howto/old_pickles",
    "embedding": "howto/embeddings",
    "rounds": "howto/several_rounds",
    "missing": "howto/missing_data",
    "hyperparameters": "notebooks/stack_your_sweep",
    "figure": "paper",
    "energy": "scores/energyscore",
    "nonfinite": "faq",
    "MCMC": "faq",
    "NaN": "howto/missing_data",
    "GPU": "howto/gpu",
    "own score": "howto/own_score",
    "save": "howto/save_and_load",
    "resume": "runs",
    "reproduce": "howto/reproducible",
    "glossary": "notation",
    "mixsqp": "benchmarks",
    "arviz": "members",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site from a copy, so that nothing is written among the sources."""
    root = tmp_path_factory.mktemp("site")
    for name in (
        "docs",
        "examples",
        "experiments/results",
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
    ):
        source, target = DOCS.parent / name, root / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("_build", "generated", "*.png"))
        else:
            shutil.copy(source, target)
    shutil.copytree(DOCS / "figures", root / "docs" / "figures", dirs_exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        root / "docs",
        root / "html",
    ]
    built = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "DRYSTONE_NOTEBOOKS": "off"}
    )
    assert built.returncode == 0, built.stderr
    return root / "html"


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_every_equation_renders(site, browser):
    pages = [path for path in site.rglob("*.html") if 'class="math' in path.read_text(encoding="utf-8")]
    assert len(pages) > 20
    tab, seen = browser.new_page(), 0
    for path in pages:
        tab.goto(path.as_uri())
        tab.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
        tab.evaluate("MathJax.startup.promise")
        seen += tab.locator("mjx-container").count()
        assert tab.locator("mjx-merror, [data-mml-node=merror]").count() == 0, path.name
    assert seen > 100


def test_signatures_name_types_as_the_source_does(site):
    assert [path.name for path in site.rglob("*.html") if "ForwardRef" in path.read_text(encoding="utf-8")] == []


def test_a_search_finds_the_page_of_each_task(site, browser):
    tab = browser.new_page()
    for words, page in TASKS.items():
        tab.goto((site / "index.html").as_uri())
        box = tab.locator("input.sidebar-search").first
        box.fill(words)
        box.press("Enter")
        tab.wait_for_selector("text=/Search finished, found/")
        hits = tab.eval_on_selector_all(
            "#search-results li a", "links => links.map(link => link.getAttribute('href'))"
        )
        pages = list(dict.fromkeys(hit.split("?")[0].split("#")[0] for hit in hits))[:8]
        assert f"{page}.html" in pages, (words, pages)


@pytest.mark.parametrize("page", ["index", "forms/index", "api/generated/drystone.Table", "paper"])
def test_a_phone_shows_a_page_without_scrolling_sideways(site, browser, page):
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    tab.goto((site / f"{page}.html").as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
