"""The pages of the site say what is so: code runs, names exist, every form, score and public name has its page."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import drystone as ds

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "generated"} & set(path.parts))
# Their code is run by tests of their own.
ELSEWHERE = {"cluster.md", "members.md", "diagnostics.md", "report.md", "products.md"}


def blocks_of(page):
    """Return the code blocks of a page, the hidden ones that set it up (`<!-- setup … -->`) among them."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"(?:<!-- setup|```python)\n(.*?)(?:-->|```)", text, re.DOTALL)


WITH_CODE = [page for page in PAGES if page.name not in ELSEWHERE and blocks_of(page)]


def quick(train):
    """Return a function that trains two members for two epochs on this machine, whatever a page asks for."""
    few = {"members": 2, "epochs": 2, "n": 200, "device": "cpu"}

    def trained(*arguments, **options):
        known = inspect.signature(train).parameters
        return train(*arguments, **(options | {name: few[name] for name in few if name in known}))

    return trained


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ds, "train", quick(ds.train))
    monkeypatch.setattr(ds, "distill", quick(ds.distill))
    monkeypatch.setattr(ds, "infer", quick(ds.infer))
    names: dict = {}
    for n, code in enumerate(blocks_of(page), 1):
        exec(compile(code, f"{page.name}, block {n}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_names_that_a_page_mentions_exist(page):
    for path in set(
        re.findall(
            r"\bds((?:\.[A-Za-z_]\w*)+)", re.sub(r"^> .*", "", page.read_text(encoding="utf-8"), flags=re.M)
        )
    ):
        target = ds
        for name in path[1:].split("."):
            assert hasattr(target, name) or name in getattr(target, "__annotations__", {}), f"ds{path}"
            target = getattr(target, name, None)
            if target is None or not (inspect.ismodule(target) or inspect.isclass(target)):
                break


# What the pages call results of each type. Of sbi, `inference` is a trainer.
NAMES = {
    "advice": ds.Advice,
    "comparison": ds.Comparison,
    "ensemble": ds.Ensemble,
    "fit": ds.Stacking,
    "inference": ds.Inference,
    "posterior": ds.StackedPosterior,
    "refined": ds.Refinement,
    "simulations": ds.Simulations,
    "table": ds.Table,
}
FILES = {"blocks", "json", "npz", "parts", "py", "zarr"}
OF_SBI = {("inference", "build_posterior"), ("posterior", "pkl")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_attributes_that_a_sentence_mentions_exist(page):
    text = re.sub(r"```.*?```|^    .*?$|^> .*?$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    for code in re.findall(r"`([^`]+)`", text):
        for name, attribute in re.findall(rf"\b({'|'.join(NAMES)})\.([a-z_]\w*)", code):
            if attribute in FILES or (name, attribute) in OF_SBI:
                continue
            kind = NAMES[name]
            known = hasattr(kind, attribute) or attribute in kind.__annotations__
            assert known or f"self.{attribute} =" in inspect.getsource(kind), f"`{code}`: {kind.__name__}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_between_pages_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
        target = DOCS / link[1:] if link.startswith("/") else page.parent / link
        assert target.exists() or "/api/generated/" in link, link


def public_names():
    """Return the full name of every public object, once."""
    names, seen = [], set()

    def walk(module, prefix):
        for name in module.__all__:
            target = getattr(module, name)
            if inspect.ismodule(target):
                walk(target, f"{prefix}.{name}")
            elif id(target) not in seen:
                seen.add(id(target))
                names.append(f"{prefix}.{name}")

    walk(ds, "drystone")
    return names


def test_every_public_name_is_in_the_reference():
    pages = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob("api/*.md"))
    listed = re.findall(r"(?:^    |py:data:: )(drystone[\w.]+)$", pages, re.M)
    assert len(listed) == len(set(listed))
    known = {id(_find(name)) for name in listed}
    assert not [name for name in public_names() if id(_find(name)) not in known]


def _find(name):
    target = ds
    for part in name.split(".")[1:]:
        target = getattr(target, part)
    return target


def test_every_form_and_every_score_has_a_page():
    for form in ds.forms.FORMS:
        assert (
            (DOCS / "forms" / f"{form.__module__.rpartition('.')[2]}.md")
            .read_text()
            .startswith(f"# {form.__name__}")
        )
    for score in ds.scores.SCORES:
        page = DOCS / "scores" / f"{score.__name__.lower()}.md"
        assert page.read_text(encoding="utf-8").startswith(f"# {score.__name__}")


def texts(source):
    """Yield the strings of a source file, formatted values as `…`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def test_errors_are_quoted_as_they_are_raised():
    package = Path(ds.__file__).parent
    raised = {
        text.replace("\n", " ")
        for path in package.rglob("*.py")
        for text in texts(path.read_text(encoding="utf-8"))
    }
    quoted = re.findall(r"^> (.*)$", (DOCS / "faq.md").read_text(encoding="utf-8"), re.M)
    assert len(quoted) > 10
    assert not [text for text in quoted if text not in raised]
