#!/usr/bin/env python3
"""Things that come and go leave nothing behind, and one client's slowness is nobody else's.

    tests/load/churn.py --broker build/release/tarrymq [--case NAME] [--scale 0.01]

  slow         a consumer that reads nothing beside fast ones, on its own queue and on theirs
  connections  10,000 connections opened and closed, some politely, some cut
  channels     100,000 channels opened and closed on one connection, in use or not
  queues       20,000 durable queues declared, used and deleted, also with retries; pipelined as clients do
Memory, open files, threads and files on disk are compared with what they were after the first tenth: they may not grow.
"""
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cases import main, until  # noqa: E402
from wire import Closed, Confirm, Delivery, Gone, Method, Unconfirmed, Wire, short, table  # noqa: E402

GROWTH_MIB = 24   # allocators keep some; a leak of 1 KiB for each of 20,000 would be as much


class Growth:
    """What the broker uses, then and now."""

    def __init__(self, broker):
        self.broker = broker
        self.first = None

    def now(self):
        b = self.broker
        return {"MiB": b.rss_mib(), "descriptors": b.descriptors(), "threads": b.threads(), "files": b.files()}

    def start(self):
        self.first = self.now()

    def verdict(self, files=50, seconds=30):
        """Waits until it has settled, at most so long."""
        allowed = {"MiB": GROWTH_MIB, "descriptors": 10, "threads": 0, "files": files}
        good = until(lambda: all(now <= self.first[k] + allowed[k] for k, now in self.now().items()), seconds, 0.2)
        return good, ", ".join("%s %.0f -> %.0f" % (k, self.first[k], now) for k, now in self.now().items())


def closing(w, ch=1, timeout=60):
    w.call(ch, 20, 40, struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0), (20, 41), timeout=timeout)


def slow(broker, scale):
    n = max(2000, int(100_000 * scale))
    stuck = Wire(broker.port)
    stuck.open(1)
    for queue in ("shared", "own", "fast"):
        stuck.declare(1, queue)
    stuck.consume(1, "shared", tag="s")
    stuck.consume(1, "own", tag="o")
    fast = Wire(broker.port)
    fast.open(1)
    fast.qos(1, 500)
    fast.consume(1, "shared", tag="shared")
    fast.consume(1, "fast", tag="fast")
    p = Wire(broker.port, timeout=60)
    p.open(1)
    p.confirm(1)
    body = b"z" * 1000
    waiting, got = Unconfirmed(), 0
    began = time.monotonic()
    received = 0
    events = fast.take_early()
    limit = time.monotonic() + 300
    while (waiting.sent < 3 * n or waiting or got < n) and time.monotonic() < limit:
        if waiting.sent < 3 * n and len(waiting) < 3000:
            for _ in range(300):
                p.publish(1, "", ("shared", "own", "fast")[waiting.sent % 3], body)
                waiting.sent += 1
            p.flush()
        for e in p.poll(0.001):
            if isinstance(e, Confirm):
                waiting.settle(e)
        for e in events:
            if isinstance(e, Delivery):
                received += 1
                got += e.consumer == "fast"
                fast.ack(1, e.tag, flush=False)
        fast.flush()
        events = fast.poll(0.001)
    took = time.monotonic() - began
    good = got == n and received > n and not waiting
    text = "%d of %d through the fast queue, %d of the shared one, in %.1f s; peak %.0f MiB" % (
        got, n, received - got, took, broker.peak_mib())
    stuck.close()
    p.close()
    fast.close()
    return good and broker.peak_mib() < 400, text


def connections(broker, scale):
    n = max(200, int(10_000 * scale))
    growth = Growth(broker)
    prepared = Wire(broker.port)
    prepared.open()
    prepared.declare(1, "storm")
    began = time.monotonic()
    batch = 50
    for i in range(0, n, batch):
        if i >= n // 10 and growth.first is None:
            growth.start()
        held = [Wire(broker.port, timeout=60) for _ in range(batch)]
        for k, w in enumerate(held):
            w.open()
            w.publish(1, "", "storm", b"m", flush=True)
            if k % 3 == 0:
                w.consume(1, "storm", tag="c", no_ack=False)
        for k, w in enumerate(held):
            if k % 2:
                w.call(0, 10, 50, struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0), (10, 51), timeout=60)
            w.close()
        if i % 1000 == 0:
            prepared.call(1, 50, 30, b"\0\0" + short("storm") + b"\0", (50, 31), timeout=60)
    rate = n / (time.monotonic() - began)
    good, text = growth.verdict()
    return good, "%d connections, %.0f/s; %s" % (n, rate, text)


def channels(broker, scale):
    n = max(2000, int(100_000 * scale))
    growth = Growth(broker)
    w = Wire(broker.port, timeout=60, channel_max=200)
    w.open(101)
    w.declare(101, "channels")
    began = time.monotonic()
    batch = 100
    for i in range(0, n, batch):
        if i >= n // 10 and growth.first is None:
            growth.start()
        for ch in range(1, batch + 1):
            w.method(ch, 20, 10, short(""), flush=False)
            if ch % 4 == 0:
                w.method(ch, 85, 10, b"\0", flush=False)
                w.publish(ch, "", "channels", b"m")
            if ch % 4 == 1:
                w.method(ch, 60, 20, b"\0\0" + short("channels") + short("c%d" % ch) + b"\0" + table(None), flush=False)
            w.method(ch, 20, 40, struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0), flush=False)
        w.flush()
        closed = 0
        while closed < batch:
            events = w.poll(60)
            if not events:
                raise Gone("no close-ok in 60 s")
            for e in events:
                if isinstance(e, Closed):
                    raise Gone("closed: %d %s" % (e.code, e.text))
                closed += isinstance(e, Method) and (e.cls, e.mid) == (20, 41)
        if i % 500 == 0:
            w.call(101, 50, 30, b"\0\0" + short("channels") + b"\0", (50, 31), timeout=60)
    rate = n / (time.monotonic() - began)
    good, text = growth.verdict()
    return good, "%d channels, %.0f/s; %s" % (n, rate, text)


def pipelined(w, count, write, answer):
    """`count` methods written at once, then all their answers."""
    for i in range(count):
        write(i)
    w.flush()
    answers = 0
    while answers < count:
        events = w.poll(120)
        if not events:
            raise Gone("%d of %d answers, and no more in 120 s" % (answers, count))
        for e in events:
            if isinstance(e, Closed):
                raise Gone("closed: %d %s" % (e.code, e.text))
            answers += isinstance(e, Method) and (e.cls, e.mid) == answer


def queues(broker, scale):
    n = max(200, int(20_000 * scale))
    batch = 500 if n >= 1000 else 50
    args = [None, {"x-delayed-retry-min": 600_000}, {"x-max-priority": 3}, {"x-expires": 3_600_000}]
    growth = Growth(broker)
    w = Wire(broker.port, timeout=120)
    w.open()
    declaring = deleting = 0.0
    for i in range(0, n, batch):
        if i >= n // 10 and growth.first is None:
            growth.start()
        names = ["churn-%d" % (i + k) for k in range(batch)]
        began = time.monotonic()
        pipelined(w, batch, lambda k: w.method(1, 50, 10, b"\0\0" + short(names[k]) + b"\2" + table(args[k % 4]), flush=False),
                  (50, 11))
        declaring += time.monotonic() - began
        # In use: some hold messages when they go, in one of the retrying ones a message waits.
        w.open(2)
        w.confirm(2)
        waiting = Unconfirmed()
        for k in range(0, batch, 3):
            w.publish(2, "", names[k], b"m" * 100)
            waiting.sent += 1
        w.flush()
        while waiting:
            events = w.poll(60)
            if not events:
                raise Gone("%d confirms never come" % len(waiting))
            for e in events:
                if isinstance(e, Confirm):
                    waiting.settle(e)
        w.method(2, 60, 70, b"\0\0" + short(names[1 + 8]) + b"\0")   # basic.get
        for e in w.poll(60):
            if isinstance(e, Delivery):
                w.nack(2, e.tag)
        closing(w, 2)
        began = time.monotonic()
        pipelined(w, batch, lambda k: w.method(1, 50, 40, b"\0\0" + short(names[k]) + b"\0", flush=False), (50, 41))
        deleting += time.monotonic() - began
    good, text = growth.verdict()
    return good, "%d queues: declared %.0f/s, deleted %.0f/s; %s" % (n, n / declaring, n / deleting, text)


CASES = {"slow": slow, "connections": connections, "channels": channels, "queues": queues}

sys.exit(main(CASES))
