"""Configuration of the documentation site. `make docs` runs `sphinx-build -c docs . build/site`.

The source folder is the repository's root, so that links from docs/ to other folders work on the site, too.
"""

project = "foldb"
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "log/*.md", "compose/*.md", "tests/*.md"]
exclude_patterns = [".*", "build", "data", "dist"]  # .venv/src links to the root: the search would follow it
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "foldb"
html_extra_path = ["site"]  # index.html redirects to docs/index.html
html_show_copyright = False
suppress_warnings = ["misc.highlighting_failure"]  # sample outputs are shortened with an ellipsis
