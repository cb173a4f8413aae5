#!/usr/bin/env python3
"""Minutes of everything at once leave nothing behind, and the broker then ends cleanly.

    tests/load/long_run.py --broker build/release/tarrymq [--seconds 300] [--broker-args ARGS]

Load: confirmed publishes into a queue that retries and gives up, into one whose messages expire, through a fanout exchange
and in transactions; consumers that ack, reject and requeue; dead letters; connections, channels and queues that come and
go, in use, politely or cut; what operators and monitoring ask over HTTP. Memory, open files and threads of the last fifth
are compared with those of the second: they may not grow. A SIGTERM under that load then has to end the broker with status
0. With LeakSanitizer (build/debug/tarrymq) what is lost ends it with another.
"""
import argparse
import base64
import collections
import http.client
import os
import statistics
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from process import Broker  # noqa: E402
from wire import Closed, Confirm, Delivery, Gone, Unconfirmed, Wire, short, table  # noqa: E402

GROWTH_MIB = 24           # allocators keep some
GROWTH_DESCRIPTORS = 30   # what happens to be open at a moment
RETRYING = {"x-delayed-retry-min": 200, "x-delayed-retry-multiplier": 1, "x-delivery-limit": 2,
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
EXPIRING = {"x-message-ttl": 300, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
SHUT = struct.pack(">H", 200) + short("") + struct.pack(">HH", 0, 0)
ASKED = ("/api/overview", "/api/queues?page=1&page_size=100", "/api/connections", "/api/channels", "/api/consumers",
         "/metrics", "/api/queues/%2F/work")


class PatientWire(Wire):
    def call(self, ch, cls, mid, args, answer, timeout=60.0):
        return super().call(ch, cls, mid, args, answer, timeout)


class Run:
    def __init__(self, broker):
        self.broker, self.lock = broker, threading.Lock()
        self.ending = threading.Event()
        self.faults, self.count = [], collections.Counter()

    def add(self, what, n=1):
        with self.lock:
            self.count[what] += n

    def play(self, work):
        """`work(run)` again and again until the end; what goes wrong before that is a fault."""
        while not self.ending.is_set() and len(self.faults) < 10:
            try:
                work(self)
            except (Gone, OSError, http.client.HTTPException) as error:
                if not self.ending.is_set():
                    self.faults.append("%s: %s %s" % (work.__name__, type(error).__name__, error))

    def wire(self):
        w = PatientWire(self.broker.port, timeout=60)
        w.open()
        return w


def refuse_close(event):
    if isinstance(event, Closed):
        raise Gone("closed: %d %s" % (event.code, event.text))


def publisher(run):
    w, waiting = run.wire(), Unconfirmed()
    w.confirm(1)
    while not run.ending.is_set():
        if len(waiting) < 400:
            for _ in range(40):
                n = waiting.sent
                exchange, key = (("", "work"), ("", "expiring"), ("amq.fanout", ""), ("", "work"))[n % 4]
                w.publish(1, exchange, key, b"%d " % n + b"x" * (n * 37 % 3000), persistent=n % 5 != 0)
                waiting.sent += 1
            w.flush()
            run.add("published", 40)
        for e in w.poll(0.01):
            refuse_close(e)
            if isinstance(e, Confirm):
                if not e.ok:
                    raise Gone("a publish was refused")
                waiting.settle(e)
    w.close()


def consumer(run):
    w = run.wire()
    w.qos(1, 50)
    for queue in ("work", "dead", "left", "right"):
        w.consume(1, queue, tag=queue)
    settled = 0
    while not run.ending.is_set():
        for e in w.take_early() + w.poll(0.05):
            refuse_close(e)
            if not isinstance(e, Delivery):
                continue
            n = int(e.body.split(b" ", 1)[0])
            fate = n % 12 if e.consumer == "work" else 1
            # Fails once, fails until it is a dead letter, is one at once; the others are good.
            if fate == 3 or (fate == 0 and not e.redelivered) or fate == 4:
                w.nack(1, e.tag, requeue=fate != 4, flush=False)
            else:
                w.ack(1, e.tag, flush=False)
            settled += 1
        w.flush()
        run.add("settled", settled)
        settled = 0
    w.close()


def mover(run):
    """Takes from a queue and publishes to another in a transaction; some are rolled back."""
    w = run.wire()
    w.call(1, 90, 10, b"", (90, 11))
    for n in range(200):
        w.publish(1, "", "left", b"%d " % n)
        w.call(1, 90, 30 if n % 7 == 0 else 20, b"", (90, 31) if n % 7 == 0 else (90, 21))
        run.add("transactions")
        if run.ending.is_set():
            break
    w.close()


def churn(run):
    """A connection with its own queues, which hold messages of every kind when they go."""
    w, n = run.wire(), run.count["connections"]
    names = ["churn-%d-%d" % (threading.get_ident(), k) for k in range(12)]
    for k, name in enumerate(names):   # written at once, as clients do that do not wait
        args = (RETRYING, EXPIRING, {"x-max-priority": 3}, None)[k % 4]
        w.method(1, 50, 10, b"\0\0" + short(name) + bytes([2 if k % 3 else 4]) + table(args), flush=False)
        w.method(1, 50, 20, b"\0\0" + short(name) + short("amq.direct") + short(name) + b"\0" + table(None), flush=False)
    for ch in (2, 3):
        w.open(ch)
        w.confirm(ch)
        for k, name in enumerate(names):
            for _ in range(5):
                w.publish(ch, "amq.direct", name, b"%d " % k + b"y" * 500, headers={"n": k}, priority=k % 4)
        w.qos(ch, 10)
        for name in names[ch::2]:
            w.consume(ch, name, tag="c-" + name)
    for k, e in enumerate(w.take_early() + w.poll(0.2)):
        refuse_close(e)
        if isinstance(e, Delivery) and k % 3:
            ch = 2 if names.index(e.consumer[2:]) % 2 == 0 else 3
            w.nack(ch, e.tag, flush=False) if k % 3 == 1 else w.ack(ch, e.tag, flush=False)
    if n % 2:
        w.call(3, 20, 40, SHUT, (20, 41))
    for name in names:
        w.method(1, 50, 40, b"\0\0" + short(name) + b"\0", flush=False)
    w.depth(1, "work")   # behind them all
    if n % 3:
        w.call(0, 10, 50, SHUT, (10, 51))
    w.close()
    run.add("connections")
    run.add("queues", len(names))


def operator(run):
    h = http.client.HTTPConnection("127.0.0.1", run.broker.http, timeout=60)
    login = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
    for path in ASKED:
        h.request("GET", path, headers=login)
        answer = h.getresponse()
        answer.read()
        if answer.status != 200:
            raise Gone("%s: %d" % (path, answer.status))
    h.close()
    run.add("asked", len(ASKED))
    run.ending.wait(0.3)


def prepare(broker):
    w = Wire(broker.port, timeout=60)
    w.open()
    for name, args in (("work", RETRYING), ("expiring", EXPIRING), ("dead", None), ("left", None), ("right", None)):
        w.declare(1, name, args)
    for name in ("left", "right"):
        w.call(1, 50, 20, b"\0\0" + short(name) + short("amq.fanout") + short("") + b"\0" + table(None), (50, 21))
    w.close()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--broker", required=True)
    a.add_argument("--seconds", type=float, default=300)
    a.add_argument("--growth-mib", type=float, default=GROWTH_MIB, help="more than that is a leak")
    a.add_argument("--broker-args", default="", help="more arguments for the daemon")
    o = a.parse_args()
    broker = Broker(o.broker, o.broker_args.split()).start()
    try:
        prepare(broker)
        run = Run(broker)
        works = [publisher, publisher, consumer, consumer, mover, churn, churn, operator]
        threads = [threading.Thread(target=run.play, args=(w,), daemon=True) for w in works]
        for t in threads:
            t.start()
        samples = []
        began = time.monotonic()
        while time.monotonic() - began < o.seconds and not run.faults and broker.p.poll() is None:
            samples.append((broker.rss_mib(), broker.descriptors(), broker.threads()))
            time.sleep(o.seconds / 300)
        run.ending.set()
        # Under load: what is under way has to be let go of.
        status = broker.p.poll()
        if status is not None:
            run.faults.append("the broker ended by itself with %d" % status)
        else:
            status = broker.stop(120)
            if status != 0:
                run.faults.append("the broker ended with %d" % status)
        for t in threads:
            t.join(70)
        run.faults += [line for line in broker.log().splitlines() if " error " in line][:5]
        part = max(1, len(samples) // 5)
        text = []
        for k, (what, allowed) in enumerate((("MiB", o.growth_mib), ("descriptors", GROWTH_DESCRIPTORS), ("threads", 0))):
            early, late = (statistics.median(s[k] for s in some) for some in (samples[part:2 * part] or samples, samples[-part:]))
            text.append("%s %.0f -> %.0f" % (what, early, late))
            if late > early + allowed:
                run.faults.append("%s grew: %.0f -> %.0f" % (what, early, late))
        text += ["%d %s" % (n, what) for what, n in sorted(run.count.items())]
        for fault in run.faults[:10]:
            print("fault: " + fault)
        if run.faults:
            print("the log ends:\n" + broker.log()[-6000:])
        print("%s long_run: %.0f s, %s" % ("FAIL" if run.faults else "PASS", time.monotonic() - began, ", ".join(text)))
        return 1 if run.faults else 0
    finally:
        broker.end()


sys.exit(main())
