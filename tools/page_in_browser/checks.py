"""Checks the page in a real Chromium: it shows what clients do, its buttons and keys work, and no name is run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import klamm
from tools.page_in_browser.chromium import (
    can_install_chromium,
    found_chromium,
    install_chromium,
    open_chromium,
    put_playwright_on_the_path,
)
from tools.page_in_browser.modules import (
    check_cells,
    check_layout,
    check_many_brokers,
    check_million_requests,
    check_touched,
)
from tools.toolchain_checks.report import CheckFailed, Report, expect

SECONDS: Final = 120.0
NARROW: Final = 400
HOSTILE: Final = "\"><img src=x onerror='window.hostile=1'><script>window.hostile=1</script>&lt;b&gt;{}"
USER: Final = "<script>window.hostile++</script>"
"""A principal. SCRAM, which takes any name, would write = and , in another way."""
RACK: Final = "<svg/onload=window.hostile=1>"
OF_TOPIC: Final = "<script>window.hostile=2</script>"
OF_RESOURCE: Final = "<iframe srcdoc='<script>parent.hostile=3</script>'>"
TOKEN_FREE: Final = "127.0.0.1:0"
_SEARCH: Final = "() => document.querySelectorAll('img, script:not([src]), #panels svg, #panels script, iframe').length"


def check_page(report: Report, *, install: bool) -> None:
    """All checks; a line with the reason where there is no Chromium."""
    if found_chromium() is None and install and can_install_chromium():
        with report.check("apt-get installs Chromium"):
            install_chromium()
    path = found_chromium()
    if path is None:
        report.skip("the page in a browser", "no chromium on the PATH (Debian: apt install chromium)")
        return
    is_there = False
    with report.check("Playwright is there"):
        put_playwright_on_the_path()
        is_there = True
    if is_there:
        with report.check("the page is checked in Chromium"), open_chromium(path) as browser:
            _check_all(report, browser)


def _check_all(report: Report, browser: Any) -> None:
    cluster = klamm.ServerProcess(
        brokers=3, racks=("a", RACK, "c"), control=True, clock="manual", log_dirs=2,
        security="sasl_plaintext", users={"alice": "secret"},
    )  # fmt: skip
    with cluster as server:
        with opened(browser, server.control_url) as page:
            with report.check("the page shows what a client has just done"):
                check_what_a_client_did(page, server)
            with report.check("names in every field are shown as text, and execute nothing"):
                check_hostile_names(page, server)
            with report.check("a million lines of hostile requests leave 80 rows and 300 lines"):
                check_million_requests(page, HOSTILE)
            with report.check("a button stops a broker, and another one starts it"):
                check_buttons(page, server)
            with report.check("buttons fail a log directory, move coordinators and time out a transaction"):
                check_steering(page, server)
            with report.check("a button lets time pass on a manual clock"):
                check_clock(page, server)
            with report.check("a leader is moved with the keyboard alone"):
                check_keyboard(page, server)
            with report.check("of 1,000 brokers 60 are shown at a time, and those that change are updated"):
                check_many_brokers(page)
            with report.check("the page keeps partitions as they come, grow, change and go"):
                check_cells(page)
            with report.check("a cell that is drawn alone looks as if all were drawn"):
                check_touched(page)
            with report.check("the places of cells on the map are those that are hit"):
                check_layout(page)
        with report.check(f"the page fits {NARROW} pixels"), opened(browser, server.control_url, width=NARROW) as page:
            check_narrow(page)
    with report.check("the page asks for the token, and keeps it out of the address"):
        check_token(browser)


@contextmanager
def opened(browser: Any, url: str, *, width: int = 1280, scheme: str = "light") -> Iterator[Any]:
    """The page, live. Raises `CheckFailed` if something was run or complained that should not have."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints: list[str] = []
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1000)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def refuse(dialog: Any) -> None:
        complaints.append("a dialog opened")
        dialog.dismiss()

    page.on("dialog", refuse)
    page.goto(url)
    try:
        yield page
        expect(page.evaluate("() => window.hostile") is None, "a name was run as a script")
        expect(not [one for one in complaints if "401" not in one], f"the browser complains: {complaints[:3]}")
    finally:
        context.close()


def wait_until(condition: Callable[[], object], otherwise: str) -> None:
    """Raise `CheckFailed` unless the condition becomes true."""
    give_up_at = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > give_up_at:
            raise CheckFailed(otherwise)
        time.sleep(0.02)


def wait_for_text(page: Any, selector: str, text: str) -> None:
    """Raise `CheckFailed` unless an element has the text."""
    wait_until(
        lambda: text in (page.text_content(selector) or ""),
        f"{selector} has no {text!r}: {(page.text_content(selector) or '')[:300]!r}",
    )


def settings(server: klamm.ServerProcess, user: str = "alice", **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": user, "sasl.password": "secret", "log_level": 2, **more,
    }  # fmt: skip


def check_what_a_client_did(page: Any, server: klamm.ServerProcess) -> None:
    wait_for_text(page, "#connection", "live")
    admin = AdminClient(settings(server, **{"client.id": "an-operator"}))
    for made in admin.create_topics([NewTopic("orders", 12, 3)]).values():
        made.result(SECONDS)
    wait_until(lambda: page.evaluate("() => klamm.cells.topics.some((topic) => topic.name === 'orders')"), "no orders")
    wait_for_text(page, "#requests", "CreateTopics")
    wait_for_text(page, "#requests", "an-operator")
    wait_until(lambda: "12" in page.text_content("#tiles"), "the tiles do not count 12 partitions")


def check_hostile_names(page: Any, server: klamm.ServerProcess) -> None:
    server.fail("Produce", "NOT_LEADER_OR_FOLLOWER", client_id=HOSTILE, times=1)
    server.fail("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", principal=HOSTILE, topic="*<b>*")
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin = AdminClient(settings(server))
    for made in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(USER, credential, b"secret")]
    ).values():
        made.result(SECONDS)
    ask_for_hostile_resources(AdminClient(settings(server, USER)))
    names = {"client.id": HOSTILE, "group.id": HOSTILE}
    consumer = Consumer(settings(server, USER, **names, **{"auto.offset.reset": "earliest"}))
    consumer.subscribe(["orders"])
    producer = Producer(settings(server, USER, **{"client.id": HOSTILE, "transactional.id": HOSTILE}))
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.commit_transaction(SECONDS)

    def polled(selector: str) -> bool:
        server.advance("1s")  # so that members need not wait for others
        consumer.poll(0.1)
        return HOSTILE in (page.text_content(selector) or "")

    wait_until(lambda: polled("#groups"), "the group is not shown")
    wait_for_text(page, "#requests", HOSTILE)
    wait_for_text(page, "#faults", HOSTILE[:100])
    wait_for_text(page, "#brokers", RACK)
    check_hostile_brokers(page)
    titles = page.evaluate("() => [...document.querySelectorAll('#requests [title]')].map((one) => one.title)")
    expect(f"User:{USER}" in titles, f"no principal among {titles[:3]}")
    page.check("#only-errors")
    wait_for_text(page, "#requests", "NOT_LEADER_OR_FOLLOWER")
    for name in (OF_TOPIC, OF_RESOURCE):
        wait_for_text(page, "#requests", f" {name}")
    page.uncheck("#only-errors")
    expect(page.evaluate(_SEARCH) == 0, "a name became an element")
    consumer.close()
    server.ask("DELETE", "/faults")


def ask_for_hostile_resources(admin: AdminClient) -> None:
    """Requests that are refused, so that their names are those of errors."""
    asked = [
        *admin.create_topics([NewTopic(OF_TOPIC, 1, 1)]).values(),
        *admin.describe_configs([ConfigResource("topic", OF_RESOURCE)]).values(),
    ]
    for refused in asked:
        expect(refused.exception(SECONDS) is not None, "a hostile name was accepted")


def check_hostile_brokers(page: Any) -> None:
    """What a broker of its own registers, and the paths of directories."""
    shown = page.evaluate(
        """async (hostile) => {
             const broker = { ...klamm.brokers.list[0], id: 9000, rack: hostile, address: hostile,
               log_dirs: [{ path: hostile, online: true, failed: false }] };
             klamm.brokers.change([broker, { ...broker, id: 9001, simulated: false }], []);
             await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
             const cards = [9000, 9001].map((id) => document.querySelector(`article[aria-label="broker ${id}"]`));
             cards[0].querySelector("details").open = true;
             await new Promise((resolve) => setTimeout(resolve, 200));
             const [title, path] = [cards[0].closest(".rack").querySelector("h3"), cards[0].querySelector("li .mono")];
             const addresses = cards.map((card) => card.querySelector(".address"));
             const texts = [...addresses, title, path].map((one) => one.textContent);
             const elements = document.querySelectorAll("#brokers img, #brokers script, #brokers b").length;
             klamm.brokers.change([], [9000, 9001]);
             return [texts, elements];
           }""",
        HOSTILE,
    )
    expect(shown == [[HOSTILE, HOSTILE, f"rack {HOSTILE}", HOSTILE], 0], f"brokers show {shown}")


def state(server: klamm.ServerProcess, broker_id: int) -> str:
    return next(broker.state for broker in server.brokers() if broker.id == broker_id)


def check_buttons(page: Any, server: klamm.ServerProcess) -> None:
    page.click("button[aria-label='Stop broker 2']")
    wait_until(lambda: state(server, 2) == "down", "broker 2 is up")
    wait_for_text(page, "article[aria-label='broker 2'] .badge", "down")
    wait_for_text(page, "#said", "broker 2: shut down")
    under = "() => klamm.cells.underReplicated"
    wait_until(lambda: page.evaluate(under) >= 12, "no partition is under-replicated")
    page.click("button[aria-label='Start broker 2']")
    wait_for_text(page, "article[aria-label='broker 2'] .badge", "up")
    expect(state(server, 2) == "up", "broker 2 is down")


def check_steering(page: Any, server: klamm.ServerProcess) -> None:
    [first, second] = (one["log_dir"] for one in server.log_dirs(3))
    page.click("summary[aria-label='more for broker 3']")
    page.click(f"button[aria-label='Fail {second} of broker 3']")
    wait_for_text(page, "ul[aria-label='log directories of broker 3']", f"{second} failed")
    expect([one["online"] for one in server.log_dirs(3)] == [True, False], "the directory is online")
    expect(not page.is_visible(f"button[aria-label='Fail {second} of broker 3']"), "it can fail twice")
    page.click(f"button[aria-label='Repair {second} of broker 3']")
    wait_for_text(page, "ul[aria-label='log directories of broker 3']", f"{second} offline until the next start")
    expect(page.is_visible(f"button[aria-label='Fail {first} of broker 3']"), "the other one cannot fail")
    server.stop_broker(3)
    server.start_broker(3)  # with both directories, so that its replicas can be in sync again
    producer = Producer(settings(server, **{"transactional.id": HOSTILE}))
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=0)
    producer.flush(SECONDS)
    page.fill("#transactional-id", HOSTILE)
    page.click("#time-out")
    wait_for_text(page, "#said", "is aborted")
    page.click("#move-coordinators")
    wait_for_text(page, "#said", "coordinators have moved")


def check_clock(page: Any, server: klamm.ServerProcess) -> None:
    before = server.now_ms()
    page.click("button[aria-label='Let 1 min pass']")
    wait_until(lambda: server.now_ms() == before + 60_000, "the clock was not advanced")
    wait_until(lambda: page.evaluate(under_zero), "the ISRs are not whole again")


under_zero: Final = "() => klamm.cells.underReplicated === 0"


def check_keyboard(page: Any, server: klamm.ServerProcess) -> None:
    page.focus("#filter")
    page.keyboard.type("orders")
    for _ in range(20):
        if page.evaluate("() => document.activeElement.id") == "map":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    wait_for_text(page, "#map-at", "orders-3")
    page.keyboard.press("Enter")
    wait_for_text(page, "#partition", "orders-3")
    before = server.leader("orders", 3)
    for _ in range(20):
        label = page.evaluate("() => document.activeElement.getAttribute('aria-label') ?? ''")
        if label.startswith("Make leader"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    wait_until(lambda: server.leader("orders", 3) != before, "the leader has not moved")
    after = server.leader("orders", 3)
    wait_for_text(page, "#map-at", f"leader {before}")
    wait_until(
        lambda: (
            page.evaluate("() => klamm.cells.leader[klamm.cells.topics.find((t) => t.name === 'orders').first + 3]")
            == after
        ),
        "the map does not show the new leader",
    )
    page.focus("#map")
    page.keyboard.press("Escape")
    wait_until(lambda: not page.is_visible("#partition"), "Escape does not close the partition")


def check_narrow(page: Any) -> None:
    wait_for_text(page, "#connection", "live")
    page.wait_for_selector("article")
    wide = page.evaluate("() => document.documentElement.scrollWidth")
    expect(wide <= NARROW, f"it is {wide} pixels wide")
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    outside = page.evaluate(
        """(width) => [...document.querySelectorAll("button, input, select")].filter((one) => {
             const box = one.getBoundingClientRect();
             return box.width && !one.closest(".scroll") && (box.left < 0 || box.right > width);
           }).map((one) => one.outerHTML)""",
        NARROW,
    )
    expect(not outside, f"outside: {outside[:2]}")
    page.click("button[aria-label='Stop broker 3']")
    wait_for_text(page, "article[aria-label='broker 3'] .badge", "down")


def check_token(browser: Any) -> None:
    with klamm.ServerProcess("--control-token", brokers=1, control=True) as server:
        token = server.stderr_text().strip().rpartition(" ")[2]
        with opened(browser, server.control_url) as page:
            page.wait_for_selector("#token", state="visible")
            page.fill("#token", "x" * 20)
            page.click("#token-send")
            wait_for_text(page, "#token-refused", "the control token is missing or wrong")
            page.fill("#token", token)
            page.keyboard.press("Enter")
            wait_for_text(page, "#connection", "live")
            page.reload()
            wait_for_text(page, "#connection", "live")
            page.fill("#rule", '{"id": "of-the-page", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}')
            page.click("#add-rule")
            wait_for_text(page, "#faults", "of-the-page")
            page.click("button[aria-label='Remove rule of-the-page']")
            wait_until(lambda: "of-the-page" not in page.text_content("#faults"), "the rule is still there")
        with opened(browser, f"{server.control_url}/#token={token}") as page:
            wait_for_text(page, "#connection", "live")
            expect(token not in page.url, "the token is in the address")
            kept = page.evaluate("() => [Object.keys(localStorage).length, document.cookie]")
            expect(kept == [0, ""], f"the token is kept elsewhere: {kept}")
