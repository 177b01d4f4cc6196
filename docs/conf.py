"""Sphinx settings of the guides, proofs and references, which stand in ``results/docs`` beside the
pages of results (``private_graphs.site.guides``). Nothing is fetched from a network."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from private_graphs import __version__

project = "private-graphs"
author = "The private-graphs maintainers"
copyright = f"2026, {author}"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"private-graphs {release}"
html_sidebars = {
    "**": [
        "sidebar/scroll-start.html", "sidebar/navigation.html", "sidebar/scroll-end.html",
    ]
}  # fmt: skip
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["doors.css"]
html_theme_options = {
    "announcement": "the parts of the site: templates/page.html",
    "light_css_variables": {"color-announcement-background": "#ffffff",
                            "color-announcement-text": "#1b1e23"},
    "dark_css_variables": {"color-announcement-background": "#16191d",
                           "color-announcement-text": "#e8eaed"},
}  # fmt: skip
html_use_index = False
html_domain_indices = False
html_copy_source = False
myst_heading_anchors = 4
myst_url_schemes = {"http": None, "https": None, "results": "{{path}}"}
autodoc_typehints = "signature"  # lists of parameters would repeat the fields of every class
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "model_config"}  # says nothing of a class
suppress_warnings = ["toc.not_included"]  # pages of single benchmarks; a test reaches all pages

PROOFS = "privacy"
RESULTS = re.compile(r"\]\(((?:\.\./)*)\.\./results/")
"""Links from a page in docs/ to the pages of results, which lie above ``results/docs``."""
SECTION = re.compile(r"§(\d+(?:\.\d+)?)")
NUMBER = re.compile(r"(\d+(?:\.\d+)?)\.? ")
PAGE = re.compile(r"docs/([\w/-]+)\.md")
"""A page of the guides in a docstring, which is text to people who read the code."""
SPOKEN_FOR = (nodes.reference, nodes.literal, nodes.literal_block, nodes.title)


def link_results(app: Sphinx, page: str, source: list[str]) -> None:
    """Let links to ``results/`` lead from the built page to the pages of results."""
    source[0] = RESULTS.sub(r"](results:\1../", source[0])


KEPT: dict[str, list[str]] = {}
"""Lines of the docstrings of attributes: Napoleon takes words before a colon for a type."""


def keep_attribute(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Take the docstring of an attribute away before Napoleon reads it."""
    if what in ("attribute", "data", "property"):
        KEPT[name] = lines[:]
        lines[:] = [""]


def restore_attribute(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Give it back."""
    if what in ("attribute", "data", "property") and name in KEPT:
        lines[:] = KEPT.pop(name)


def number_sections(app: Sphinx, doctree: nodes.document) -> None:
    """Give every section of the proofs the address ``privacy.html#s0.1`` or ``#s12``."""
    if app.env.docname != PROOFS:
        return
    app.env.proof_sections = set()
    for place in [*doctree.findall(nodes.title), *doctree.findall(nodes.strong)]:
        if found := NUMBER.match(place.astext() + " "):
            number_node(app, place.parent, found[1])
            for listed in place.parent.children if isinstance(place, nodes.title) else ():
                if isinstance(listed, nodes.enumerated_list):
                    for item, child in enumerate(listed, listed.get("start", 1)):
                        number_node(app, child, f"{found[1]}.{item}")


def number_node(app: Sphinx, node: nodes.Element, number: str) -> None:
    """Add the address of a section to a node."""
    node["ids"].append(f"s{number}")
    app.env.proof_sections.add(number)


def link_sections(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Make a link of every § that a page names."""
    for text in list(doctree.findall(nodes.Text)):
        if "§" not in text or any(isinstance(each, SPOKEN_FOR) for each in parents(text)):
            continue
        parts, end = [], 0
        for found in SECTION.finditer(text):
            if found[1] in app.env.proof_sections:
                target = f"{app.builder.get_relative_uri(page, PROOFS)}#s{found[1]}"
                parts += [nodes.Text(text[end : found.start()]),
                          nodes.reference("", found[0], refuri=target, internal=True)]  # fmt: skip
                end = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def link_pages(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Make a link of every page of the guides that a docstring names by its file."""
    for text in list(doctree.findall(nodes.Text)):
        around = parents(text)
        if "docs/" not in text or any(isinstance(each, nodes.reference) for each in around):
            continue
        if any(isinstance(each, nodes.literal_block) for each in around):
            continue
        parts, end = [], 0
        for found in PAGE.finditer(text):
            if found[1] in app.env.titles:
                words = app.env.titles[found[1]].astext()
                target = app.builder.get_relative_uri(page, found[1])
                parts += [nodes.Text(text[end : found.start()]),
                          nodes.reference("", words, refuri=target, internal=True)]  # fmt: skip
                end = found.end()
        if parts:
            parts.append(nodes.Text(text[end:]))
            literal = isinstance(text.parent, nodes.literal)
            place = text.parent if literal and len(text.parent) == 1 else text
            place.parent.replace(place, [part for part in parts if part.astext()])


def parents(node: nodes.Node) -> list[nodes.Node]:
    """Return all nodes around a node."""
    return [] if node.parent is None else [node.parent, *parents(node.parent)]


def list_titles(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: nodes.document
) -> None:
    """Let the list of pages skip their headings at once: the theme takes them out of a copy."""
    whole = context["toctree"]
    context["toctree"] = lambda **given: whole(**given | {"maxdepth": 1})


MOVED = {
    "published-results": "studies/lrec2022", "results": "studies/lrec2022",
    "opacus-report": "audit-your-training",
    **{f"benchmarks/{name}": "benchmarks" for name in (
        "README", "door", "gpu", "growth", "neighbours", "reference", "training_citeseer",
        "training_cora", "training_pubmed", "unit_steps")},
}  # fmt: skip
"""Pages of earlier versions, to which links may lead, and where their words are now."""


def forward_moved(app: Sphinx, error: Exception | None) -> None:
    """Write at the address of every moved page one that leads on."""
    for old, new in MOVED.items():
        path = Path(app.outdir, f"{old}.html")
        to = f"{'../' * old.count('/')}{new}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Moved</title>'
            f'<meta http-equiv="refresh" content="0; url={to}"></head>'
            f'<body><p>This page is now <a href="{to}">here</a>.</p></body></html>\n',
            encoding="utf-8",
        )


WORD = re.compile(r'<span class="(?:pre|n|p|w)">([^<]*)</span>')
"""A word of code, of which each has an element of its own: most of what a page weighs."""


CODE = re.compile(r'<code class="[^"]*">([^<]*)</code>')


FOR_EVERYBODY = (
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<th class="head"><p></p></th>', "<td></td>"),
    ('role="heading"', 'role="heading" aria-level="2"'),
    ('class="docutils literal notranslate"', 'class="literal"'),
    ('class="reference internal"', 'class="reference"'),
)
"""What a keyboard must reach to scroll, what a screen reader must not take for a heading, and
classes that no style names."""


def finish_page(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: nodes.document
) -> None:
    """Make a page ``FOR_EVERYBODY``, and take out the elements around single words of code."""
    for part in ("body", "furo_navigation_tree", "toc"):
        text = str(context.get(part) or "")
        for plain, finished in FOR_EVERYBODY:
            text = text.replace(plain, finished)
        text = WORD.sub(r"\1", WORD.sub(r"\1", text))
        if part == "toc":
            text = CODE.sub(r"\1", text)
        context[part] = text


def leave_out_maps(app: Sphinx, error: Exception | None) -> None:
    """Remove what only developers of the theme read."""
    for path in Path(app.outdir).rglob("*.map"):
        path.unlink()


def leave_out_search(app: Sphinx) -> None:
    """Make no search of the guides alone: that of all pages is a page of results."""
    app.builder.search = False


def setup(app: Sphinx) -> None:
    """Register what this file adds to Sphinx."""
    app.connect("builder-inited", leave_out_search)
    app.connect("source-read", link_results)
    app.connect("autodoc-process-docstring", keep_attribute, priority=100)
    app.connect("autodoc-process-docstring", restore_attribute, priority=900)
    app.connect("doctree-read", number_sections)
    app.connect("doctree-resolved", link_pages)
    app.connect("doctree-resolved", link_sections)
    app.connect("html-page-context", list_titles, priority=100)
    app.connect("html-page-context", finish_page, priority=900)
    app.connect("build-finished", leave_out_maps)
    app.connect("build-finished", forward_moved)
