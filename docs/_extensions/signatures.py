"""What autodoc writes, as a reader wants it: types by their names in the source, and no base that is `object`."""

import re
from typing import Any

from docutils import nodes

WRAPPED = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


def as_written(*event: Any) -> tuple[str | None, str | None]:
    """Return the signature and what it returns, the last two values of the event, without the wrapping."""
    signature, returns = event[-2:]
    return tuple(part and WRAPPED.sub(r"\1", part) for part in (signature, returns))


def without_object(app: Any, doctree: Any) -> None:
    """Remove the line that says of a class that its base is `object`."""
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if paragraph.astext() == "Bases: object":
            paragraph.parent.remove(paragraph)


def setup(app: Any) -> dict[str, bool]:
    """Follow the signatures and pages that autodoc makes."""
    app.setup_extension("sphinx.ext.autodoc")  # which has the event
    app.connect("autodoc-process-signature", as_written)
    app.connect("doctree-read", without_object)
    return {"parallel_read_safe": True}
