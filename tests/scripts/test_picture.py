"""The picture in the docs is what the tool draws today, and fetches nothing from anywhere."""

import re

from tools.picture_of_watch import PICTURE, picture


def test_the_picture_is_what_a_watch_draws() -> None:
    assert picture() == PICTURE.read_text(), "scripts/picture draws it anew"


def test_the_picture_needs_nothing_from_elsewhere() -> None:
    text = PICTURE.read_text()
    assert set(re.findall(r"\w+://[^\"'\s)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(#" in text
    assert set(re.findall(r"url\((.)", text)) == {"#"}
