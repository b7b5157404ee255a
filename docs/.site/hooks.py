"""The site's front page is the README, and what pages link to outside of docs/ is part of the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CITATION.cff": "citation.cff"}
"""Files of the repository's root, and what they are called on the site."""


def on_files(files: Files, config: Any) -> Files:
    """Add the root's pages, and the figures and numbers of results/."""
    for name, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "results").rglob("*")):
        if path.suffix in (".json", ".svg", ".png"):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are in a checkout, turned into links of the site."""
    markdown = markdown.replace("](../results/", "](results/").replace("](../README.md", "](index.md")
    if page.file.src_uri not in OUTSIDE.values():
        return markdown
    for name, to in OUTSIDE.items():
        markdown = markdown.replace(f"]({name})", f"]({to})")
    markdown = re.sub(r'href="docs/([\w-]+)\.md"', r'href="\1.html"', markdown)
    return markdown.replace("](docs/", "](").replace('src="docs/', 'src="')
