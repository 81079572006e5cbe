"""Make ``demo.png`` and ``report.png``, the pictures of the report of the demo.

    drystone demo runs/demo
    python docs/figures/report.py runs/demo/report.html

``report.png`` is the first page, light on the left and dark on the right; ``demo.png`` has the verdict and the
posteriors. Both are taken in a headless Chromium.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
WIDTH, HEIGHT = 1280, 1500


def report_picture(browser: Browser, report: Path, folder: str) -> Image.Image:
    """Return the first page in both themes, side by side, half size."""
    whole = Image.new("RGB", (WIDTH, HEIGHT // 2))
    for i, scheme in enumerate(("light", "dark")):
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
        page.goto(report.as_uri())
        page.screenshot(path=f"{folder}/{scheme}.png")
        half = Image.open(f"{folder}/{scheme}.png").resize((WIDTH // 2, HEIGHT // 2), Image.Resampling.LANCZOS)
        whole.paste(half, (i * WIDTH // 2, 0))
    return whole


def demo_picture(browser: Browser, report: Path, folder: str) -> Image.Image:
    """Return the verdict above the posteriors."""
    page = browser.new_page(viewport={"width": 1000, "height": HEIGHT}, color_scheme="light")
    page.goto(report.as_uri())
    parts = []
    for name in ("verdict", "posteriors"):
        page.locator(f"#{name}").screenshot(path=f"{folder}/{name}.png")
        parts.append(Image.open(f"{folder}/{name}.png").convert("RGB"))
    whole = Image.new("RGB", (max(part.width for part in parts), sum(part.height for part in parts)), "#fffefa")
    for i, part in enumerate(parts):
        whole.paste(part, (0, sum(before.height for before in parts[:i])))
    return whole


if __name__ == "__main__":
    report = Path(sys.argv[1]).resolve()
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, picture in (("report", report_picture), ("demo", demo_picture)):
            # Few colors make a small file; by coverage, so that the rare green and red marks keep theirs.
            image = picture(browser, report, folder).quantize(128, Image.Quantize.MAXCOVERAGE)
            image.save(HERE / f"{name}.png", optimize=True)
        browser.close()
