"""Make ``report.png``, the picture of the report of the demo.

    drystone demo runs/demo
    python docs/figures/report.py runs/demo/report.html

It is the first page, light on the left and dark on the right, taken in a headless Chromium.
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


if __name__ == "__main__":
    report = Path(sys.argv[1]).resolve()
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        # Few colors make a small file; by coverage, so that the rare green and red marks keep theirs.
        image = report_picture(browser, report, folder).quantize(128, Image.Quantize.MAXCOVERAGE)
        image.save(HERE / "report.png", optimize=True)
        browser.close()
