"""Sphinx's settings: ``make docs`` builds ``docs/_build/html``; a warning is an error."""

import importlib
import inspect
import re
from importlib import metadata

project = "sb3-greendc"
author = "The sb3-greendc developers"
copyright = "the sb3-greendc developers, MIT licence"
release = version = metadata.version("sb3-greendc")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "results/introduction.md", "results/*/README.md"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
# Annotations of these names repeat what the prose says, at length.
autodoc_type_aliases = {"Observation": "Observation"}

html_theme = "furo"
html_title = "sb3-greendc"
html_static_path = ["_static"]
html_css_files = ["wide.css"]

_DOCSTRING = re.compile(r"^<!-- docstring: ([\w.]+):(\w+) -->$", re.MULTILINE)
_ROLE = re.compile(r":(class|func|meth|mod|data|attr):(`[^`]+`)")


def setup(app):
    """Let pages take over the docstrings of environments, which are in Markdown, as Gymnasium's are."""
    app.connect("source-read", lambda app, page, source: source.__setitem__(0, _insert_docstrings(source[0])))


def _insert_docstrings(text):
    """Replace each ``<!-- docstring: module:Class -->`` by the class's docstring, in MyST."""
    return _DOCSTRING.sub(lambda match: _docstring(*match.groups()), text)


def _docstring(module, name):
    text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    return _ROLE.sub(r"{\1}\2", text).replace("``", "`")
