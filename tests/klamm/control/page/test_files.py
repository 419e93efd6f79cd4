"""The files of the page: what comes with them, and that they need nothing from elsewhere."""

import re
from html.parser import HTMLParser

import pytest

from klamm.control.page.routes import FILES, HEADERS, TYPES, page_files
from klamm.server.addresses import Address
from tests.klamm.control.control_cluster import controlled_cluster

TOKEN = "correct-horse-battery-staple"


async def test_every_file_is_served_with_the_headers_that_keep_the_page_safe() -> None:
    async with controlled_cluster(brokers=1) as cluster:
        assert set(page_files().values()) == {path.name for path in FILES.iterdir()}
        for path, name in page_files().items():
            status, headers, content = await cluster.respond("GET", path, headers={"Host": "localhost"})
            assert (status, content) == (200, (FILES / name).read_bytes())
            assert headers["content-type"].partition(";")[0] == TYPES["." + name.partition(".")[2]]
            assert {given: headers[given.lower()] for given in HEADERS} == HEADERS
            assert (await cluster.respond("HEAD", path, headers={"Host": "localhost"}))[0] == 200
    policy = dict(part.strip().partition(" ")[::2] for part in HEADERS["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["img-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes |= {name for name, _ in attrs}
        self.found |= {
            str(value) for name, value in attrs if name in ("src", "href") and not str(value).startswith("#")
        }


def test_the_page_loads_its_own_files_alone() -> None:
    links = _Links()
    links.feed((FILES / "index.html").read_text())
    imported = {
        f"/page/{name}" for path in FILES.glob("*.js") for name in re.findall(r'from "\./([^"]+)"', path.read_text())
    }
    assert links.found | imported == set(page_files()) - {"/"}
    assert not {name for name in links.attributes if name.startswith("on") or name == "style"}
    for path in FILES.iterdir():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg|HOST:PORT)", path.read_text()), path.name


def test_no_module_makes_html_or_code_of_text() -> None:
    for path in FILES.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser", path.read_text()
        ), path.name


async def test_files_need_no_token_and_all_else_does() -> None:
    async with controlled_cluster(brokers=1, listen=Address("0.0.0.0", 0), token=TOKEN) as cluster:
        for path in page_files():
            assert (await cluster.respond("GET", path, headers={"Host": "klamm.internal"}))[0] == 200
        own = {"Host": "klamm.internal", "Authorization": f"Bearer {TOKEN}"}
        for headers, status in (({"Host": "klamm.internal"}, 401), (own, 200)):
            assert (await cluster.respond("GET", "/page/snapshot", headers=headers))[0] == status
        refused, _, _ = await cluster.respond("GET", "/page/events", headers={"Host": "h", "Last-Event-ID": "0"})
        assert refused == 401
        assert (await cluster.respond("POST", "/", headers={"Host": "h"}))[0] == 401


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/snapshot", "/page/events"])
async def test_foreign_pages_and_hosts_are_refused(path: str) -> None:
    async with controlled_cluster(brokers=1) as cluster:
        foreign = {"Host": "localhost:1", "Origin": "http://elsewhere.example", "Last-Event-ID": "0"}
        assert (await cluster.respond("GET", path, headers=foreign))[0] == 403
        assert (await cluster.respond("GET", path, headers={"Host": "rebound.example"}))[0] == 403


@pytest.mark.parametrize("path", ["/page/", "/page/..", "/page/../app.py", "/page/index.html", "/page/%2e%2e/app.py"])
async def test_no_other_file_is_reached(path: str) -> None:
    async with controlled_cluster(brokers=1) as cluster:
        assert (await cluster.respond("GET", path, headers={"Host": "localhost"}))[0] == 404
