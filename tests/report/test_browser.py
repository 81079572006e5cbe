"""The report in a real browser: it renders, works, loads nothing, fits a phone, prints."""

import re
import shutil

import pytest

import drystone as ds
from drystone.plots.palette import SHADES
from helpers.report_inputs import gaussians, written

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "report.html"
    validation, test, exact = gaussians(K=9, N=160)
    # Names that sort differently as text and as numbers, one of them long, one hostile.
    names = ["maf-2", "maf-10", "maf-1", "nsf-3", "n" * 90, "<script>window.hacked = 1</script>", "a b", "b", "c"]
    validation, test = (
        ds.Table(table.theta, log_q=table.log_q, draws=table.draws, names=names) for table in (validation, test)
    )
    fits = {"log": ds.stack(validation), "long " * 12: ds.stack(validation, score=ds.LogScore() + ds.RankCvM())}
    written(path, validation, test, fits, exact=exact, title="In a browser")
    return path


@pytest.fixture
def page(browser, report):
    """The report, freshly opened; anything on the console and any request but its own fails the test."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    yield page
    page.wait_for_timeout(50)
    assert said == []
    assert set(asked) == {report.as_uri()}
    page.close()


def names(page):
    """Names of the visible members, from the top."""
    return [th.inner_text() for th in page.locator("#member-table tbody tr:visible th").all()]


def background(page):
    return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")


def test_it_renders_without_running_what_a_member_is_called(page):
    assert page.title() == "In a browser"
    assert page.locator("svg[role=img]").count() == 8
    assert page.evaluate("window.hacked") is None
    # A curve has a color of the palette, so the custom properties reach into the pictures.
    curve = page.locator("#calibration svg [data-method=uniform] path").first
    light, dark = (tuple(int(shade[i : i + 2], 16) for i in (1, 3, 5)) for shade in SHADES["uniform"])
    stroke = "path => getComputedStyle(path).stroke"
    assert curve.evaluate(stroke) == f"rgb{light}"
    page.emulate_media(color_scheme="dark")
    assert curve.evaluate(stroke) == f"rgb{dark}"


def test_titles_sort_members_both_ways(page):
    title = page.locator("#member-table th", has_text="test log density")
    values = "rows => rows.map(row => Number(row.cells[3].dataset.key))"
    for direction in ("descending", "ascending"):
        title.get_by_role("button").click()
        assert title.get_attribute("aria-sort") == direction
        shown = page.locator("#member-table tbody tr").evaluate_all(values)
        assert shown == sorted(shown, reverse=direction == "descending")
    assert page.locator("#member-table th[aria-sort]").count() == 1


def test_names_sort_as_people_count_and_by_keyboard(page):
    button = page.locator("#member-table thead button").first
    button.focus()
    page.keyboard.press("Enter")
    shown = names(page)
    assert shown.index("maf-1") < shown.index("maf-2") < shown.index("maf-10")


def test_search_hides_other_members_and_counts(page):
    search = page.get_by_label("Search")
    search.fill("MAF")
    assert sorted(names(page)) == ["maf-1", "maf-10", "maf-2"]
    assert page.locator(".search output").inner_text() == "3 of 9"
    search.fill("maf 10")
    assert names(page) == ["maf-10"]
    search.fill("")
    assert len(names(page)) == 9


def test_the_theme_follows_the_system_until_it_is_chosen_and_is_kept(page):
    light = background(page)
    page.emulate_media(color_scheme="dark")
    dark = background(page)
    assert dark != light
    page.reload()
    page.get_by_role("button", name="Switch to the light theme").click()
    assert background(page) == light
    page.reload()
    assert background(page) == light
    page.get_by_role("button", name="Switch to the dark theme").click()
    page.emulate_media(color_scheme="light")
    assert background(page) == dark


def test_the_legend_switches_curves_in_its_section_only(page):
    of_best = {
        section: page.locator(f"#{section} svg [data-method=best]") for section in ("calibration", "posteriors")
    }
    entry = page.locator("#calibration").get_by_role("button", name="best", exact=True)
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert not any(mark.is_visible() for mark in of_best["calibration"].all())
    assert all(mark.is_visible() for mark in of_best["posteriors"].all())
    entry.click()
    assert all(mark.is_visible() for mark in of_best["calibration"].all())


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_the_page_never_scrolls_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_skip_link_is_first_and_leads_to_the_report(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_everything_that_scrolls_can_be_reached_by_keyboard(page):
    page.set_viewport_size({"width": 375, "height": 800})
    unreachable = page.evaluate(
        """[...document.querySelectorAll("div")].filter(one => one.scrollWidth > one.clientWidth
           && getComputedStyle(one).overflowX === "auto" && one.tabIndex < 0).length"""
    )
    assert unreachable == 0


def test_print_opens_what_is_closed_and_hides_what_is_pressed(page, tmp_path):
    pdf = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert pdf.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20
    assert page.locator("details[open]").count() == 0  # closed again afterwards
    page.emulate_media(media="print", color_scheme="dark")
    assert background(page) == "rgb(255, 255, 255)"
    assert not page.locator("button.theme").is_visible()
    assert not page.locator("nav").is_visible()


def test_without_scripts_it_still_reads(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("#verdict").is_visible()
    assert not page.locator("button.theme").is_visible()
    assert not page.get_by_label("Search").is_visible()
    context.close()


def test_cards_are_not_cut_on_a_phone_and_the_comparison_fits_a_desktop(page):
    reach = "all => all.map(e => e.scrollWidth - e.clientWidth)"
    page.set_viewport_size({"width": 1200, "height": 900})
    assert max(page.locator(".compared").evaluate_all(reach)) <= 0
    page.set_viewport_size({"width": 375, "height": 800})
    assert max(page.locator(".card .scroll").evaluate_all(reach)) <= 0
