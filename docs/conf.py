"""Settings of the site: `make docs` builds it, with warnings as errors."""

import os
import sys
from pathlib import Path

import drystone

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Drystone"
author = "The Drystone developers"
copyright = author
release = version = drystone.__version__

extensions = [
    "cells",
    "signatures",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]

# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
# DRYSTONE_NOTEBOOKS=off, which the tests use, shows the notebooks as they are.
nb_execution_mode = os.environ.get("DRYSTONE_NOTEBOOKS", "cache")
nb_execution_timeout = 1200  # a guard against hanging; a busy machine is slow
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_output_stderr = "remove"

# ── reference ────────────────────────────────────────────────────────────────────────────────────────────
autosummary_ignore_module_all = False
autodoc_typehints = "signature"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
maximum_signature_line_length = 100
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False, "show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
add_module_names = False

# ── look ─────────────────────────────────────────────────────────────────────────────────────────────────
html_theme = "furo"
html_title = f"Drystone {release}"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
