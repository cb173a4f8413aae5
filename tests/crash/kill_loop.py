#!/usr/bin/env python3
"""Kills the daemon with SIGKILL at random moments under load and keeps a ledger.

    tests/crash/kill_loop.py --broker build/release/tarrymq --kills 50 [--seed N] [--seconds-between 0.6]

Load: confirmed persistent publishes into a queue with retries and a limit, into one with priorities besides (what runs out
goes to `dead`, on another shard), through a fanout exchange into two plain queues, into one whose messages expire to
`expired`, and into `stage1`, from which workers move them to `stage2` in transactions; consumers that ack, reject with and
without requeue, by what the message's number says. After the last kill everything is drained. It must hold that
  - no confirmed message is lost: each was acked by a consumer, or is drained from its queue or from `dead`;
  - nothing is doubled by the broker: while it runs, no message is with two consumers or in two places; the drain sees
    each at most once;
  - no counter is lowered: x-delivery-count of a message never goes down, and no more deliveries than limit + 1 carry a
    raised count;
  - no retry and no expiry is early;
  - what a committed transaction has taken does not come back;
  - the daemon calls nothing damaged.
Prints one line a round and a last line `PASS ...` or `FAIL ...`; the exit status follows.
"""
import argparse
import collections
import json
import os
import random
import shutil
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from process import Broker  # noqa: E402
from wire import Closed, Confirm, Delivery, Gone, Wire  # noqa: E402

WORK, PRIO, DEAD, LEFT, RIGHT = "work", "prio", "dead", "left", "right"
TTL, EXPIRED, STAGE1, STAGE2 = "ttl", "expired", "stage1", "stage2"
RETRYING = (WORK, PRIO)
TTL_MS = 150
MIN_MS, LIMIT = 40, 3
ARGS = {"x-delayed-retry-min": MIN_MS, "x-delayed-retry-multiplier": 1, "x-delivery-limit": LIMIT,
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}


class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.next = 0
        self.confirmed = set()          # (queue, number)
        self.acked = set()              # acks sent; may or may not have reached the disk
        self.counts = {}                # number -> highest x-delivery-count seen
        self.rejected_at = {}           # number -> (time, count after)
        self.settled = set()            # (queue, number) acked or rejected for good since the last start
        self.faults = []
        self.deliveries = 0
        self.published_at = {}          # number -> time, of those that expire
        self.moved = set()              # numbers whose transaction was committed for sure

    def fault(self, text):
        with self.lock:
            self.faults.append(text)


def fate(n):
    """What the consumers do with message n: 0-4 ack at once, 5-6 fail once, 7 fail until dead, 8 reject for good."""
    return n % 9


def publisher(port, ledger, stop):
    try:
        w = Wire(port)
        w.open()
        w.confirm(1)
        sent, low = {}, 0
        seq = 0
        while not stop.is_set():
            for _ in range(16):
                with ledger.lock:
                    n = ledger.next
                    ledger.next += 1
                seq += 1
                kind = n % 12
                if kind in (1, 5, 9):
                    queue = {1: PRIO, 5: TTL, 9: STAGE1}[kind]
                    if queue == TTL:
                        ledger.published_at[n] = time.monotonic()
                    w.publish(1, "", queue, b"%d" % n + b"x" * (n % 300), priority=n // 12 % 5 if queue == PRIO else None)
                    sent[seq] = [(queue, n)]
                elif n % 4 == 3:
                    w.publish(1, "both", "", b"%d" % n + b"x" * (n % 700))
                    sent[seq] = [(LEFT, n), (RIGHT, n)]
                else:
                    w.publish(1, "", WORK, b"%d" % n + b"x" * (n % 300))
                    sent[seq] = [(WORK, n)]
            w.flush()
            for e in w.poll(0.2 if len(sent) > 400 else 0.002):
                if isinstance(e, Confirm):
                    first = low + 1 if e.multiple else e.tag
                    for t in range(first, e.tag + 1):
                        what = sent.pop(t, None)
                        if what and e.ok:
                            with ledger.lock:
                                ledger.confirmed.update(what)
                        elif what:
                            ledger.fault("publish %s was refused" % what)
                    if e.multiple:
                        low = max(low, e.tag)
                elif isinstance(e, Closed):
                    if e.code != 320:
                        ledger.fault("publisher closed: %d %s" % (e.code, e.text))
                    return
    except Gone:
        pass


def number(body):
    return int(body.split(b"x", 1)[0])


def consumer(port, ledger, queue, stop):
    try:
        w = Wire(port)
        w.open()
        w.qos(1, 50)
        w.consume(1, queue)
        events = w.take_early()
        while not stop.is_set():
            for e in events:
                if isinstance(e, Closed):
                    if e.code != 320:
                        ledger.fault("consumer of %s closed: %d %s" % (queue, e.code, e.text))
                    return
                if isinstance(e, Delivery):
                    settle(w, ledger, queue, e)
            w.flush()
            events = w.poll(0.05)
    except Gone:
        pass


def settle(w, ledger, queue, e):
    n, t = number(e.body), time.monotonic()
    key = (queue, n)
    count = e.headers.get("x-delivery-count", 0)
    with ledger.lock:
        ledger.deliveries += 1
        if key in ledger.settled:
            ledger.faults.append("%s came again after it was settled, without a restart" % (key,))
        if queue in RETRYING:
            if count < ledger.counts.get(n, 0):
                ledger.faults.append("counter of %d went down: %d after %d" % (n, count, ledger.counts[n]))
            ledger.counts[n] = max(count, ledger.counts.get(n, 0))
            if count > LIMIT:
                ledger.faults.append("%d delivered with counter %d over the limit" % (n, count))
            at = ledger.rejected_at.get(n)
            if at and count >= at[1] and t - at[0] < MIN_MS / 1000.0:
                ledger.faults.append("%d came back %.1f ms after its rejection" % (n, (t - at[0]) * 1000))
        f = fate(n)
        if queue == DEAD and f not in (5, 6, 7, 8):
            ledger.faults.append("%d is dead, but nobody rejected it" % n)
        rejects = queue in RETRYING and (f == 7 or (f in (5, 6) and count == 0))
        if rejects:
            ledger.rejected_at[n] = (time.monotonic(), count + 1)
        else:
            ledger.settled.add(key)
    if rejects:
        w.nack(1, e.tag, requeue=True, flush=False)
    elif queue in RETRYING and f == 8:
        w.nack(1, e.tag, requeue=False, flush=False)
    else:
        w.ack(1, e.tag, flush=False)
        with ledger.lock:
            ledger.acked.add(key)


def mover(port, ledger, stop):
    """Takes from stage1 and publishes to stage2 in one transaction, some messages at a time."""
    try:
        w = Wire(port)
        w.open()
        w.qos(1, 20)
        w.call(1, 90, 10, b"", (90, 11))
        w.consume(1, STAGE1)
        batch = []
        while not stop.is_set():
            for e in w.take_early() + w.poll(0.02):
                if isinstance(e, Closed):
                    return
                if isinstance(e, Delivery):
                    n = number(e.body)
                    if n in ledger.moved:
                        ledger.fault("%d is back in stage1 after its transaction was committed" % n)
                    w.publish(1, "", STAGE2, e.body)
                    w.ack(1, e.tag, flush=False)
                    batch.append(n)
            if batch:
                w.call(1, 90, 20, b"", (90, 21))
                ledger.moved.update(batch)
                batch = []
    except Gone:
        pass


def left(broker):
    """How many messages are anywhere in the broker, waiting or on its way."""
    request = urllib.request.Request(
        "http://127.0.0.1:%d/api/queues?columns=messages,messages_delayed,messages_dead_lettering" % broker.http,
        headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return sum(sum(queue.values()) for queue in json.load(answer))


def drain(broker, ledger):
    """Everything that is left, by queue; waits until retries, expiries and dead letters are through, too."""
    seen = collections.defaultdict(list)
    w = Wire(broker.port)
    w.open()
    w.qos(1, 0)
    for q in (WORK, PRIO, DEAD, LEFT, RIGHT, TTL, EXPIRED, STAGE1, STAGE2):
        w.consume(1, q, tag=q)
    quiet = time.monotonic() + 1.5
    end = time.monotonic() + 120
    events = w.take_early()
    while time.monotonic() < quiet or (left(broker) > 0 and time.monotonic() < end):
        for e in events:
            if isinstance(e, Delivery):
                n = number(e.body)
                seen[e.consumer].append(n)
                early = time.monotonic() - ledger.published_at.get(n, 0) < TTL_MS / 1000.0
                if e.consumer == EXPIRED and early:
                    ledger.fault("%d expired early" % n)
                w.ack(1, e.tag, flush=False)
                quiet = time.monotonic() + 1.5
        w.flush()
        events = w.poll(0.1)
    w.close()
    return seen


def check(ledger, seen):
    for q, numbers in seen.items():
        if q == STAGE2:
            continue   # a transaction of which nobody heard may have published, and is done again
        for n, times in collections.Counter(numbers).items():
            if times > 1:
                ledger.fault("%s holds %d %d times" % (q, n, times))
    for source, target in ((WORK, DEAD), (PRIO, DEAD), (TTL, EXPIRED)):
        for n in set(seen[source]) & set(seen[target]):
            ledger.fault("%d is in %s and in %s" % (n, source, target))
    for n in set(seen[STAGE1]) & ledger.moved:
        ledger.fault("%d is in stage1 after its transaction was committed" % n)
    there = {(q, n) for q in (WORK, PRIO, LEFT, RIGHT, TTL, STAGE1) for n in seen[q]}
    there |= {(TTL, n) for n in seen[EXPIRED]} | {(STAGE1, n) for n in seen[STAGE2]}
    there |= {(q, n) for q in RETRYING for n in seen[DEAD]}
    lost_moves = ledger.moved - set(seen[STAGE2])
    if lost_moves:
        ledger.fault("%d committed transactions lost, e.g. %s" % (len(lost_moves), sorted(lost_moves)[:5]))
    lost = ledger.confirmed - ledger.acked - there
    if lost:
        ledger.fault("%d confirmed messages lost, e.g. %s" % (len(lost), sorted(lost)[:5]))


def whole(broker, ledger):
    """A killed process damages nothing on a disk: who says so has read wrongly, and gives up a message."""
    for line in broker.log().splitlines():
        if "is damaged" in line:
            ledger.fault(line)


def kill_it(broker, ledger):
    own_end = broker.kill()
    if own_end:
        ledger.fault(own_end)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--broker", required=True)
    a.add_argument("--kills", type=int, default=50)
    a.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    a.add_argument("--seconds-between", type=float, default=0.7, help="at most; the moment is drawn")
    a.add_argument("--broker-args", default="", help="more arguments for the daemon")
    o = a.parse_args()
    rnd = random.Random(o.seed)
    ledger, broker = Ledger(), Broker(o.broker, o.broker_args.split())
    print("seed %d" % o.seed, flush=True)
    try:
        broker.start()
        w = Wire(broker.port)
        w.open()
        w.declare(1, DEAD)
        w.declare(1, WORK, ARGS)
        w.declare(1, PRIO, dict(ARGS, **{"x-max-priority": 3}))
        for q in (EXPIRED, STAGE1, STAGE2):
            w.declare(1, q)
        w.declare(1, TTL, {"x-message-ttl": TTL_MS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": EXPIRED})
        w.call(1, 40, 10, b"\0\0" + b"\4both\6fanout" + b"\2" + b"\0\0\0\0", (40, 11))
        for q in (LEFT, RIGHT):
            w.declare(1, q)
            w.call(1, 50, 20, b"\0\0" + bytes([len(q)]) + q.encode() + b"\4both\0\0" + b"\0\0\0\0", (50, 21))
        w.close()
        for kill in range(1, o.kills + 1):
            stop = threading.Event()
            # `dead` has no consumer: its messages pile up for the final count.
            jobs = [(publisher, (broker.port, ledger, stop))] * 2
            jobs += [(consumer, (broker.port, ledger, q, stop)) for q in (WORK, WORK, PRIO, LEFT, RIGHT)]
            jobs += [(mover, (broker.port, ledger, stop))] * 2
            threads = [threading.Thread(target=f, args=args, daemon=True) for f, args in jobs]
            for t in threads:
                t.start()
            time.sleep(rnd.uniform(0.05, o.seconds_between))
            kill_it(broker, ledger)
            stop.set()
            for t in threads:
                t.join(20)
            whole(broker, ledger)
            ledger.settled.clear()
            began = time.monotonic()
            broker.start()
            print("kill %d: %d published, %d confirmed, %d deliveries, up again in %.0f ms, %d faults"
                  % (kill, ledger.next, len(ledger.confirmed), ledger.deliveries, (time.monotonic() - began) * 1000,
                     len(ledger.faults)), flush=True)
            if ledger.faults:
                break
        seen = drain(broker, ledger)
        check(ledger, seen)
        kill_it(broker, ledger)
        whole(broker, ledger)
    finally:
        if broker.p and broker.p.poll() is None:
            broker.kill()
    for f in ledger.faults[:20]:
        print("fault: " + f)
    if ledger.faults:
        print("FAIL kill_loop seed %d: %d faults; data kept in %s" % (o.seed, len(ledger.faults), broker.dir))
        return 1
    shutil.rmtree(broker.dir, ignore_errors=True)
    print("PASS kill_loop: %d kills, %d confirmed, %d deliveries, 0 lost, 0 doubled"
          % (o.kills, len(ledger.confirmed), ledger.deliveries))
    return 0


sys.exit(main())
