"""The changelog tells each thing once, also after branches were merged line by line."""

import re
from collections import Counter

from tests.docs.test_pages import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text("utf-8")
# Each version may have sections and entries of the same names.
VERSIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


def repeated(pattern, text):
    """Returns what a pattern finds more than once."""
    counted = Counter(re.findall(pattern, text, re.MULTILINE))
    return [found for found, times in counted.items() if times > 1]


def test_a_version_has_each_section_and_each_entry_once():
    for version in VERSIONS:
        assert repeated(r"^###+ (.*)$", version) == []
        # What it adds in short comes first; the rest has more of the same things.
        added = version.partition("### Added")[2]
        assert repeated(r"^- \*\*(.*?)\*\*", added) == []
        assert repeated(r"^- (?!\*)(.*)$", version) == []


def test_a_repeated_entry_is_noticed():
    twice = "- **Records**: one form\n- **Records**: one form, and another\n"
    assert repeated(r"^- \*\*(.*?)\*\*", twice) == ["Records"]
