"""The dumb client of tests/support/wire.py with what the scripts of this folder do all the time."""
import os
import re
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "support"))
from report import check  # noqa: E402
from wire import Closed, Delivery, Method, Wire, short, table  # noqa: E402

DEADLINE_S = 60


class Client(Wire):
    """A connection with channel 1 open, and what these checks do all the time."""

    def __init__(self, port, **options):
        super().__init__(port, timeout=DEADLINE_S, **options)
        self.kept = []
        self.open(1)

    def next(self, kind, what="event"):
        """The next event of that kind; others are kept for their turn."""
        end = time.monotonic() + DEADLINE_S
        while True:
            for i, event in enumerate(self.kept):
                if isinstance(event, kind):
                    return self.kept.pop(i)
            self.kept += self.take_early()
            if any(isinstance(e, kind) for e in self.kept):
                continue
            check(time.monotonic() < end, "no %s; came: %s" % (what, self.kept))
            self.kept += self.poll(0.2)

    def refused(self, code, pattern="", connection=False):
        closed = self.next(Closed, "close with %d" % code)
        check(closed.code == code and closed.connection == connection and re.search(pattern, closed.text),
              "expected %s close %d %r, got %s" % ("connection" if connection else "channel", code, pattern, closed))
        if not connection:
            self.method(1, 20, 41)
            self.open(1)

    def ask(self, cls, mid, args, code, pattern="", connection=False):
        """The method is refused."""
        self.method(1, cls, mid, args)
        self.refused(code, pattern, connection)

    def sync(self, ch=1):
        """What was sent before is done: an answer came for something behind it."""
        self.call(ch, 60, 10, struct.pack(">IHB", 0, 0, 0), (60, 11))

    def temp(self, args=None, name="", flags=4):
        """An exclusive queue."""
        a = self.call(1, 50, 10, b"\0\0" + short(name) + bytes([flags]) + table(args), (50, 11))
        return a[1:1 + a[0]].decode()

    def exchange(self, name, kind, args=None, flags=4):  # auto-delete
        self.call(1, 40, 10, exchange_declare(name, kind, args, flags), (40, 11))
        return name

    def bind(self, queue, exchange, key="", args=None):
        self.call(1, 50, 20, b"\0\0" + short(queue) + short(exchange) + short(key) + b"\0" + table(args), (50, 21))

    def bind_exchange(self, destination, source, key="", args=None):
        self.call(1, 40, 30, b"\0\0" + short(destination) + short(source) + short(key) + b"\0" + table(args), (40, 31))

    def get(self, queue, no_ack=True):
        """The message, or None."""
        self.method(1, 60, 70, b"\0\0" + short(queue) + bytes([no_ack]))
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            self.kept += self.take_early() + self.poll(0.2)
            for i, event in enumerate(self.kept):
                if isinstance(event, Delivery) and not event.consumer:
                    return self.kept.pop(i)
                if isinstance(event, Method) and (event.cls, event.mid) == (60, 72):
                    self.kept.pop(i)
                    return None
                check(not isinstance(event, Closed), "closed: %s" % (event,))
        check(False, "no answer to basic.get")

    def send(self, exchange, key, body=b"m", flags=0, properties=b"", publish_flags=0, ch=1):
        """A publish with raw property flags and bytes."""
        self.method(ch, 60, 40, b"\0\0" + short(exchange) + short(key) + bytes([publish_flags]), flush=False)
        p = struct.pack(">HHQH", 60, 0, len(body), flags) + properties
        self.out += struct.pack(">BHI", 2, ch, len(p)) + p + b"\xce"
        if body:
            self.out += struct.pack(">BHI", 3, ch, len(body)) + body + b"\xce"
        self.flush()

    def send_headers(self, exchange, key, headers, body=b"m", mandatory=False):
        self.send(exchange, key, body, 1 << 13, table(headers), int(mandatory))


def exchange_declare(name, kind, args=None, flags=4):
    return b"\0\0" + short(name) + short(kind) + bytes([flags]) + table(args)


def queue_declare(name, args=None, flags=4):
    return b"\0\0" + short(name) + bytes([flags]) + table(args)


def publish_args(exchange, key, flags=0):
    return b"\0\0" + short(exchange) + short(key) + bytes([flags])
