"""Reads the page's snapshot and its stream of events until it is ended: what a page costs the server without a browser.

python -m bench.page_reader http://127.0.0.1:9090
"""

import http.client
import sys
from urllib.parse import urlsplit

PIECE_BYTES = 1 << 16
READY = "reading\n"


def main() -> None:
    address = urlsplit(sys.argv[1])
    assert address.hostname is not None, "the URL of a control interface"
    snapshot = http.client.HTTPConnection(address.hostname, address.port)
    snapshot.request("GET", "/page/snapshot")
    content = snapshot.getresponse().read()
    # The number of the last event is the first member of the JSON, behind its length.
    seq = content[4:].split(b":", 1)[1].split(b",", 1)[0].decode()
    events = http.client.HTTPConnection(address.hostname, address.port)
    events.request("GET", "/page/events", headers={"Last-Event-ID": seq})
    stream = events.getresponse()
    sys.stdout.write(READY)
    sys.stdout.flush()
    while stream.read1(PIECE_BYTES):
        pass


if __name__ == "__main__":
    main()
