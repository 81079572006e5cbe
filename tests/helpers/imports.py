"""Which module of the package imports which, read from the source."""

import ast
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "drystone"


@dataclass(frozen=True)
class Import:
    """One import of ``target`` in ``module``; ``top`` if it is done when the module is imported."""

    module: str
    target: str
    top: bool


def modules() -> dict[str, Path]:
    """Return the file of every module, by dotted name."""
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imports() -> list[Import]:
    """Return all imports, those within functions too, but not those for type checkers only."""
    files = modules()
    # What the package imports on first use is written in its stub.
    sources = [*files.items(), ("drystone", PACKAGE / "__init__.pyi")]
    return [
        Import(module, _module_of(target, files), top)
        for module, path in sources
        for target, top in _imports_of(ast.parse(path.read_text()), path.suffix == ".py")
        if target != "drystone.__version__"  # a constant, there before anything else
    ]


def _imports_of(node: ast.AST, top: bool):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, top) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = ".".join(filter(None, ["drystone" * child.level, child.module]))  # relative in the stub only
            yield from ((f"{base}.{alias.name}", top) for alias in child.names)
        yield from _imports_of(child, top and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def _module_of(name: str, files: dict[str, Path]) -> str:
    """Return the module that ``name`` is or lies in; of another library, its top-level name."""
    while name not in files and "." in name:
        name = name.rpartition(".")[0]
    return name
