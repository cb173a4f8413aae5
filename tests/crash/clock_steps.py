#!/usr/bin/env python3
"""The wall clock is set back and forward by a day while messages wait: never early, never stuck (retry-spec 29).

    tests/crash/clock_steps.py --broker build/release/tarrymq [--delay 3]

The daemon runs under libfaketime, which moves its wall clock while it runs and leaves its steady clock alone. Each case
rejects a message in a queue with a delay, sets one with an expiration beside it, steps the clock, and perhaps restarts
the daemon with SIGTERM or SIGKILL, at once, before it can have noticed the step, or steps while it is down. Lower bounds
are exact, upper bounds generous. One line a case, exit status 1 if one fails.
"""
import argparse
import glob
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from process import Broker  # noqa: E402
from wire import Confirm, Delivery, Gone, Unconfirmed, Wire  # noqa: E402

PATIENCE_S, DAY_S = 30.0, 86400


class FakeClock:
    """The wall clock of the daemon: the machine's, plus `offset` seconds."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "faketime.rc")
        self.set(0)

    def set(self, offset):
        with open(self.path + ".new", "w") as f:
            f.write("%+d\n" % offset)
        os.replace(self.path + ".new", self.path)

    def environment(self):
        library = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not library:
            raise SystemExit("FAIL libfaketime is not there (package faketime)")
        return {"LD_PRELOAD": library[0], "FAKETIME_TIMESTAMP_FILE": self.path, "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1"}


def next_delivery(w, seconds):
    """The first delivery and when it came; None if there is none in time."""
    end = time.monotonic() + seconds
    events = w.take_early()
    while True:
        for e in events:
            if isinstance(e, Delivery):
                return e, time.monotonic()
        left = end - time.monotonic()
        if left <= 0:
            return None, end
        events = w.poll(left)


def confirmed(w, publishes):
    waiting = Unconfirmed()
    waiting.sent = publishes
    end = time.monotonic() + PATIENCE_S
    early = w.take_early()
    while waiting:
        for e in early + w.poll(max(0.0, end - time.monotonic())):
            if isinstance(e, Confirm):
                waiting.settle(e)
        early = []
        expect(not waiting or time.monotonic() < end, "no confirm")


def connect(broker):
    w = Wire(broker.port)
    w.open()
    return w


def expect(condition, why):
    if not condition:
        raise Gone(why)


def run(binary, delay_s, step, restart, while_down):
    broker = Broker(binary)
    clock = FakeClock(broker.dir)
    broker.environment = clock.environment()
    try:
        broker.start()
        w = connect(broker)
        w.declare(1, "late", {"x-delayed-retry-min": int(delay_s * 1000), "x-delayed-retry-multiplier": 1})
        w.declare(1, "dead")
        w.declare(1, "ttl", {"x-message-ttl": int(delay_s * 1000), "x-dead-letter-exchange": "",
                             "x-dead-letter-routing-key": "dead"})
        w.confirm(1)
        published = time.monotonic()
        w.publish(1, "", "late", b"again")
        w.publish(1, "", "ttl", b"expires", flush=True)
        w.consume(1, "late")
        first, _ = next_delivery(w, PATIENCE_S)
        expect(first is not None, "no first delivery")
        rejected = time.monotonic()
        w.publish(1, "amq.retry", str(first.tag), b"", flush=True)   # a rejection that is confirmed once it is durable
        confirmed(w, 3)
        if not while_down:
            clock.set(step)
        if restart:
            if restart == "kill":
                broker.kill()
            else:
                broker.stop()
            if while_down:
                clock.set(step)
            broker.start()
            w = connect(broker)
            w.consume(1, "late")
        second, at = next_delivery(w, PATIENCE_S)
        expect(second is not None, "stuck: no second delivery in %d s" % PATIENCE_S)
        expect(at - rejected >= delay_s, "early: after %.3f s" % (at - rejected))
        expect(second.headers.get("x-delivery-count") == 1, "x-delivery-count is %s" % second.headers)
        w.ack(1, second.tag)
        w.consume(1, "dead", tag="dead")
        dead, dead_at = next_delivery(w, PATIENCE_S)
        expect(dead is not None, "stuck: nothing expired in %d s" % PATIENCE_S)
        expect(dead_at - published >= delay_s, "expired early: after %.3f s" % (dead_at - published))
        w.close()
        return at - rejected
    finally:
        broker.end()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--broker", required=True)
    a.add_argument("--delay", type=float, default=3.0, help="of the retry and the expiration, in seconds")
    o = a.parse_args()
    cases = [(step, restart, False) for step in (DAY_S, -DAY_S) for restart in (None, "term", "kill")]
    cases += [(step, restart, True) for step in (DAY_S, -DAY_S) for restart in ("term", "kill")]
    failed = 0
    for step, restart, while_down in cases:
        name = "%s by a day%s%s" % ("forward" if step > 0 else "back", {None: "", "term": ", restart", "kill": ", kill -9"}[restart],
                                    ", while it is down" if while_down else "")
        try:
            print("PASS clock %s: came back after %.2f s" % (name, run(o.broker, o.delay, step, restart, while_down)), flush=True)
        except Gone as gone:
            failed += 1
            print("FAIL clock %s: %s" % (name, gone), flush=True)
    return 1 if failed else 0


sys.exit(main())
