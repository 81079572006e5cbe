"""Names of types in signatures as the source has them: Python wraps an alias that is part of a union."""

import re
from typing import Any

WRAPPED = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


def as_written(*event: Any) -> tuple[str | None, str | None]:
    """Return the signature and what it returns, the last two values of the event, without the wrapping."""
    signature, returns = event[-2:]
    return tuple(part and WRAPPED.sub(r"\1", part) for part in (signature, returns))


def setup(app: Any) -> dict[str, bool]:
    """Follow the signatures that autodoc makes."""
    app.setup_extension("sphinx.ext.autodoc")  # which has the event
    app.connect("autodoc-process-signature", as_written)
    return {"parallel_read_safe": True}
