#!/usr/bin/env python3
"""Memory stays bounded whatever piles up: five cases, each with a broker of its own, and the peak of its resident memory.

    tests/load/memory.py --broker build/release/tarrymq [--case NAME] [--scale 0.01]

  backlog   20,000,000 small persistent messages in one queue without a consumer
  retries   1,000,000 rejected messages wait for their delay
  unacked   a consumer with unlimited prefetch takes 2,000,000 messages and never acknowledges one
  fast      a publisher that is faster than the disk: 3 GiB of 16 KiB messages, as fast as the socket takes them
  half      10,000 connections that have sent half a frame
`--scale` makes every number smaller; the limits stay. Exit status 1 if a case is over its limit or loses a message.
"""
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cases import main, until  # noqa: E402
from wire import Closed, Confirm, Delivery, Gone, Unconfirmed, Wire, short  # noqa: E402

BLOCK = 1000


def publish_frames(queue, body, count):
    """The bytes of `count` persistent publishes to a queue on channel 1."""
    method = struct.pack(">HH", 60, 40) + b"\0\0" + short("") + short(queue) + b"\0"
    header = struct.pack(">HHQHB", 60, 0, len(body), 1 << 12, 2)
    one = b"".join(struct.pack(">BHI", kind, 1, len(part)) + part + b"\xce"
                   for kind, part in ((1, method), (2, header), (3, body)))
    return one * count


def publish(broker, queue, body, count, window=20):
    """Confirmed publishes in blocks, `window` blocks ahead at most. Returns messages per second."""
    w = Wire(broker.port, timeout=120)
    w.open()
    w.confirm(1)
    block = publish_frames(queue, body, BLOCK)
    began = time.monotonic()
    waiting = Unconfirmed()
    while waiting.sent < count or waiting:
        while waiting.sent < count and len(waiting) < window * BLOCK:
            w._write(block)
            waiting.sent += BLOCK
        events = w.poll(120)
        if not events:
            raise Gone("no confirm in 120 s")
        for e in events:
            if isinstance(e, Confirm):
                if not e.ok:
                    raise Gone("refused")
                waiting.settle(e)
            elif isinstance(e, Closed):
                raise Gone("closed: %d %s" % (e.code, e.text))
    w.close()
    return count / (time.monotonic() - began)


def prepare(broker, queue, args=None):
    w = Wire(broker.port)
    w.open()
    w.declare(1, queue, args)
    w.close()


def depth(broker, queue):
    w = Wire(broker.port)
    w.open()
    n = w.depth(1, queue)
    w.close()
    return n


def thousands(n, scale):
    return max(BLOCK, int(n * scale) // BLOCK * BLOCK)


def backlog(broker, scale):
    n = thousands(20_000_000, scale)
    prepare(broker, "backlog")
    rate = publish(broker, "backlog", b"x" * 16, n)
    there = depth(broker, "backlog")
    return there == n, "%d messages, %.0f/s, %.0f MiB on disk" % (there, rate, broker.disk_mib())


def take(w, wanted, on_block):
    """Reads `wanted` deliveries; on_block(last tag) after each 1000 and at the end."""
    got = last = 0
    events = w.take_early()
    while True:
        for e in events:
            if isinstance(e, Delivery):
                got, last = got + 1, e.tag
                if got % BLOCK == 0:
                    on_block(last)
            elif isinstance(e, Closed):
                raise Gone("closed: %d %s" % (e.code, e.text))
        if got >= wanted:
            return last
        w.flush()
        events = w.poll(60)
        if not events:
            raise Gone("%d of %d deliveries, and no more in 60 s" % (got, wanted))


def retries(broker, scale):
    n = thousands(1_000_000, scale)
    prepare(broker, "retries", {"x-delayed-retry-min": 3_600_000, "x-delayed-retry-multiplier": 1})
    publish(broker, "retries", b"x" * 16, n)
    w = Wire(broker.port, timeout=120)
    w.open()
    w.qos(1, 5000)
    w.consume(1, "retries")
    began = time.monotonic()
    take(w, n, lambda tag: w.nack(1, tag, requeue=True, multiple=True))
    w.call(1, 20, 40, struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0), (20, 41), timeout=60)
    rate = n / (time.monotonic() - began)
    w.close()
    return depth(broker, "retries") == 0, "%d wait, %.0f rejections/s" % (n, rate)


def unacked(broker, scale):
    n = thousands(2_000_000, scale)
    prepare(broker, "unacked")
    publish(broker, "unacked", b"x" * 16, n)
    w = Wire(broker.port, timeout=120)
    w.open()
    w.consume(1, "unacked")
    try:
        take(w, n, lambda tag: None)
        text = "%d deliveries out with one consumer" % n
    except Gone as stopped:   # the broker may stop delivering to such a channel, if it says so
        text = "stopped: %s" % stopped
    w.close()
    return until(lambda: depth(broker, "unacked") == n), text   # they come back


def fast(broker, scale):
    size = 16384
    n = thousands(3 * (1 << 30) // size, scale)
    prepare(broker, "fast")
    w = Wire(broker.port, timeout=300)
    w.open()
    block = publish_frames("fast", b"x" * size, 100)
    began = time.monotonic()
    for _ in range(n // 100):
        w._write(block)
    sent = time.monotonic() - began
    # An answer on the same channel: all before it was taken.
    w.call(1, 20, 40, struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0), (20, 41), timeout=300)
    w.close()
    there = depth(broker, "fast")
    return there == n, "%d messages of 16 KiB sent in %.1f s (%.0f MiB/s)" % (there, sent, n * size / 1048576 / sent)


def half(broker, scale):
    n = max(10, int(10_000 * scale))
    before = broker.rss_mib()
    head = struct.pack(">BHI", 3, 1, 1000) + b"y" * 500
    open_ones = []
    for i in range(n):
        w = Wire(broker.port, timeout=60)
        w.open()
        w.publish(1, "", "nowhere", b"", flush=False)
        w.out.clear()
        w.method(1, 60, 40, b"\0\0" + short("") + short("nowhere") + b"\0", flush=False)
        w.out += struct.pack(">BHI", 2, 1, 14) + struct.pack(">HHQH", 60, 0, 1000, 0) + b"\xce" + head
        w.flush()
        open_ones.append(w)
    read = until(lambda: broker.unread_bytes() == 0)   # nothing answers to half a frame
    idle = broker.rss_mib() - before
    for w in open_ones:
        w.close()
    gone = until(lambda: broker.descriptors() <= 200)
    return read and gone, "%d connections, %.1f KiB each" % (n, idle * 1024 / n)


CASES = {"backlog": backlog, "retries": retries, "unacked": unacked, "fast": fast, "half": half}
LIMITS_MIB = {"backlog": 500, "retries": 500, "unacked": 700, "fast": 700, "half": 900}


def peak(broker, name):
    mib = broker.peak_mib()
    return mib <= LIMITS_MIB[name], "peak %.0f MiB (limit %d)" % (mib, LIMITS_MIB[name])


sys.exit(main(CASES, peak))
