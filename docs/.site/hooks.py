"""The site's front page is the README, and what pages link to in results/ is part of the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]


def on_files(files: Files, config: Any) -> Files:
    """Add README.md as the front page, and the figures and numbers of results/."""
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text(encoding="utf-8")))
    for path in sorted((ROOT / "results").rglob("*")):
        if path.suffix in (".json", ".svg", ".png"):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are in a checkout, turned into links of the site."""
    if page.file.src_uri == "index.md":
        markdown = re.sub(r"\]\(docs/", "](", markdown)
        return re.sub(r'src="docs/', 'src="', markdown)
    return markdown.replace("](../results/", "](results/").replace("](../README.md", "](index.md")
