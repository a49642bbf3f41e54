"""Links between documents lead somewhere, as they stand in the repository.

The book's own are checked when it is built, as a page of it; those of other sites are not asked.
"""

import re
import runpy
from unittest.mock import patch

import pytest

from tests.docs.test_pages import PAGES, ROOT, name

DOCUMENTS = [*PAGES, ROOT / "CHANGELOG.md"]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(path):
    """Returns the anchors of a document's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_link_leads_to_a_file_and_a_heading(path):
    for link in _LINK.findall(_CODE.sub("", path.read_text("utf-8"))):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{link} is not there"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_each_page_stands_in_a_table_of_contents():
    listed = set()
    for index in (ROOT / "docs" / "index.md", ROOT / "docs" / "api" / "index.md"):
        for toc in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text("utf-8"), re.DOTALL):
            lines = [line for line in toc.split() if not line.startswith(":")]
            listed |= {(index.parent / f"{line}.md").resolve() for line in lines}
    pages = set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "index.md"}
    assert {page.resolve() for page in pages} <= listed


def test_no_page_has_the_name_of_one_that_sphinx_makes():
    made = {"search", "genindex", "py-modindex"}
    assert not made & {path.stem for path in (ROOT / "docs").glob("*.md")}


def test_a_package_index_gets_a_readme_with_absolute_links():
    with patch("setuptools.setup"):
        made = runpy.run_path(str(ROOT / "setup.py"))["long_description"]
    text = "![a](docs/a.svg) [b](docs/b.md#c) [d](#d) [e](https://e.org)"
    home = "https://host.org/us/autotune"
    assert made(text, home) == (
        f"![a]({home}/raw/main/docs/a.svg) [b]({home}/blob/main/docs/b.md#c) [d](#d) "
        "[e](https://e.org)"
    )
    assert made(text, "") == text
