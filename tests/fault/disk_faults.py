#!/usr/bin/env python3
"""The daemon on a disk that is full, fails, has no descriptors left or is slow, and then is well again.

    tests/fault/disk_faults.py --broker build/release/tarrymq [--only NAME] [--port N]

While it lasts: nothing unstored is confirmed (the publish is nacked, or its confirm waits, or the connection is told that
it is blocked), consumers go on, a rejection is requeued at once with a warning that names the queue (retry-spec 28), and
the log says what is wrong. Afterwards everything goes on by itself: publishes are confirmed, declarations answered. Then
kill -9: what was confirmed is there, what was acknowledged is not back.
The faults come from tests/fault/disk_shim.c (preloaded into the daemon); "full" is also a real file system in memory of
8 MiB, where mounting is allowed. A line "PASS|FAIL|SKIP disk: NAME" each; exit status 1 after a failure.
"""
import argparse
import contextlib
import mmap
import os
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from process import Broker  # noqa: E402
from wire import Confirm, Delivery, Gone, Method, Wire, short, table  # noqa: E402

DEADLINE_S = 60
BODY = b"x" * 2000
RETRY = {"x-delayed-retry-min": 200, "x-delayed-retry-multiplier": 1, "x-delivery-limit": 50}


class Fail(Exception):
    pass


class Skip(Exception):
    pass


def check(condition, why):
    if not condition:
        raise Fail(why)


def until(condition, why, seconds=DEADLINE_S):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, why)
        time.sleep(0.02)


class Disk:
    """What the shim is told."""

    def __init__(self, folder, data):
        self.path = os.path.join(folder, "word")
        with open(self.path, "wb") as file:
            file.write(b"0")
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 1)
        self.environment = {"LD_PRELOAD": build_shim(folder), "DISK_SHIM_WORD": self.path, "DISK_SHIM_DIR": data}

    def say(self, word):
        self.map[0:1] = word


def build_shim(folder):
    out = os.path.join(folder, "shim.so")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise Skip("no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", out, os.path.join(HERE, "disk_shim.c"), "-ldl"],
                   check=True)
    return out


@contextlib.contextmanager
def broker_on(binary, mount=None, flags=()):
    """A broker that runs, and what tells its disk what to do (None where it has a file system of its own)."""
    broker, disk = Broker(binary, flags), None
    data = os.path.join(broker.dir, "data")
    try:
        if mount:
            os.mkdir(data)
            if subprocess.run(mount + [data], stderr=subprocess.DEVNULL).returncode != 0:
                raise Skip("mounting is not allowed here")
        else:
            disk = Disk(broker.dir, data)
            broker.environment = disk.environment
        broker.start()
        yield broker, disk
    except (Fail, Gone, OSError, SystemExit) as why:
        raise Fail("%s\n-- the broker's log, its end:\n%s" % (why, broker.log()[-2000:] if broker.p else ""))
    finally:
        if broker.p and broker.p.poll() is None:
            broker.kill()
        if mount:
            subprocess.run(["umount", "-l", data], stderr=subprocess.DEVNULL)
        broker.end()


class Publisher:
    """Confirms on; remembers what was confirmed. Bodies are "queue number" and filling."""

    def __init__(self, port):
        self.wire = Wire(port)
        self.ch = self.wire.open()
        self.wire.confirm(self.ch)
        self.sent, self.confirmed, self.refused = [], set(), 0

    def publish(self, queue, n):
        self.sent.append((queue, n))
        self.wire.publish(self.ch, "", queue, b"%s %d " % (queue.encode(), n) + BODY, flush=True)

    def look(self, seconds=0.0):
        for e in self.wire.poll(seconds):
            if isinstance(e, Confirm):
                first = e.tag if not e.multiple else 1
                for tag in range(first, e.tag + 1):
                    what = self.sent[tag - 1]
                    if what is None:
                        continue
                    if e.ok:
                        self.confirmed.add(what)
                    else:
                        self.refused += 1
                    self.sent[tag - 1] = None

    def waiting(self):
        return sum(1 for what in self.sent if what)

    def settle_one(self, queue, n, why="no confirm, though the disk is well again"):
        """Publishes one more, which must be taken, now that all before it is settled too."""
        self.settle(why)
        self.publish(queue, n)
        self.settle(why)
        check((queue, n) in self.confirmed, "refused, though the disk is well again")

    def settle(self, why):
        end = time.monotonic() + DEADLINE_S
        while self.waiting():
            self.look(0.1)
            check(time.monotonic() < end, why)


class Consumer:
    def __init__(self, port, queue, prefetch):
        self.queue, self.more = queue, []
        self.wire = Wire(port)
        self.ch = self.wire.open()
        self.wire.qos(self.ch, prefetch)
        self.wire.consume(self.ch, queue)
        self.acked = set()

    def next(self, why, seconds=DEADLINE_S):
        end = time.monotonic() + seconds
        while True:
            for e in self.wire.take_early() + self.wire.poll(0.1):
                if isinstance(e, Delivery):
                    self.more.append(e)
            if self.more:
                return self.more.pop(0)
            check(time.monotonic() < end, why)

    def ack(self, delivery):
        self.acked.add(name_of(delivery.body))
        self.wire.ack(self.ch, delivery.tag)

    def make_durable(self):
        """A message behind the acknowledgements, on their channel and into their queue, is confirmed: they are on the disk.
        Returns its name."""
        name = (self.queue, 10_000_000)
        self.wire.confirm(self.ch)
        self.wire.publish(self.ch, "", self.queue, b"%s %d " % (self.queue.encode(), name[1]), flush=True)
        end = time.monotonic() + DEADLINE_S
        while True:
            for e in self.wire.take_early() + self.wire.poll(0.1):
                if isinstance(e, Confirm):
                    check(e.ok, "refused, though the disk is well again")
                    return name
            check(time.monotonic() < end, "no confirm behind the acknowledgements")


def name_of(body):
    queue, n = body.split(b" ")[:2]
    return queue.decode(), int(n)


def prepare(broker):
    """A plain queue and one with retries, each with confirmed messages."""
    wire = Wire(broker.port)
    ch = wire.open()
    wire.declare(ch, "plain")
    wire.declare(ch, "work", RETRY)
    wire.close()
    publisher = Publisher(broker.port)
    for n in range(40):
        publisher.publish("plain", n)
        publisher.publish("work", n)
    publisher.settle("not confirmed on a good disk")
    check(len(publisher.confirmed) == 80, "refused on a good disk")
    return publisher


def drain(port, queue, expected):
    """All that is in the queue. Waits for what is expected of it; what is there besides has come by then."""
    found = []
    wire = Wire(port)
    ch = wire.open()
    wire.consume(ch, queue, no_ack=True)
    end = time.monotonic() + DEADLINE_S
    while not expected <= set(found) and time.monotonic() < end:
        found += [name_of(e.body) for e in wire.take_early() + wire.poll(0.1) if isinstance(e, Delivery)]
    while wire.depth(ch, queue) > 0 and time.monotonic() < end:
        found += [name_of(e.body) for e in wire.poll(0.1) if isinstance(e, Delivery)]
    found += [name_of(e.body) for e in wire.take_early() if isinstance(e, Delivery)]
    wire.close()
    return found


def after_kill(broker, publisher, consumers):
    """Kill -9 and start anew; each confirmed message is there once unless its ack was sent."""
    confirmed = publisher.confirmed | {c.make_durable() for c in consumers}
    broker.kill()
    broker.start()
    acked = set().union(*(c.acked for c in consumers))
    for queue in ("plain", "work"):
        expected = {m for m in confirmed if m[0] == queue} - acked
        found = drain(broker.port, queue, expected)
        check(len(found) == len(set(found)), "doubled in %s" % queue)
        lost = expected - set(found)
        check(not lost, "lost in %s: %s" % (queue, sorted(lost)[:5]))
        back = acked & set(found)
        check(not back, "acknowledged and back in %s: %s" % (queue, sorted(back)[:5]))


def answered(wire, cls, mid):
    return any(isinstance(e, Method) and (e.cls, e.mid) == (cls, mid) for e in wire.poll(0))


def fails(binary, word, cause):
    """Writes or syncs fail outright for a while."""
    with broker_on(binary) as (broker, disk):
        publisher = prepare(broker)
        plain, work = Consumer(broker.port, "plain", 5), Consumer(broker.port, "work", 1)
        disk.say(word)
        publisher.publish("plain", 1000)
        # Nobody is told that it is stored; the next ones are nacked or wait, the log says why.
        until(lambda: "disk alarm" in broker.log(), "no disk alarm in the log")
        until(lambda: cause in broker.log(), "the log names no cause")
        publisher.publish("plain", 1001)
        # A definition waits too, and only its own channel with it.
        definer = Wire(broker.port)
        ch = definer.open()
        definer.method(ch, 50, 10, b"\0\0" + short("meanwhile") + bytes([2]) + table(None))
        for _ in range(20):
            plain.ack(plain.next("consumers do not go on"))
        work.wire.nack(work.ch, work.next("no delivery").tag)
        again = work.next("a rejection is not requeued")
        until(lambda: "work" in broker.log() and "requeued without delay" in broker.log(), "no warning of rule 28")
        other = Wire(broker.port)
        other_ch = other.open()
        for n in range(50):
            other.declare(other_ch, "passing-%d" % n, durable=False)
        other.close()
        publisher.look()
        check(not {("plain", 1000), ("plain", 1001)} & publisher.confirmed, "confirmed, though the disk fails")
        check(not answered(definer, 50, 11), "declare-ok, though the disk fails")
        disk.say(b"0")
        publisher.settle_one("plain", 2000)
        until(lambda: "disk alarm is over" in broker.log(), "the alarm stays")
        definer.expect(ch, 50, 11, timeout=DEADLINE_S)
        definer.close()
        work.ack(again)
        wire = Wire(broker.port)
        wire.declare(wire.open(), "new")
        wire.close()
        after_kill(broker, publisher, (plain, work))


def full(binary):
    fails(binary, b"F", "No space left")


def eio_write(binary):
    fails(binary, b"E", "Input/output error")


def eio_sync(binary):
    fails(binary, b"Y", "Input/output error")


def no_descriptors(binary):
    """New files cannot be opened: a queue that has one goes on, one that needs one waits."""
    with broker_on(binary) as (broker, disk):
        publisher = prepare(broker)
        wire = Wire(broker.port)
        wire.declare(wire.open(), "other")
        wire.close()
        plain = Consumer(broker.port, "plain", 5)
        disk.say(b"M")
        publisher.publish("other", 1)
        until(lambda: "Too many open files" in broker.log(), "the log does not say it")
        for _ in range(20):
            plain.ack(plain.next("consumers do not go on"))
        publisher.look()
        check(("other", 1) not in publisher.confirmed, "confirmed without a file")
        disk.say(b"0")
        publisher.settle_one("other", 2)
        after_kill(broker, publisher, (plain,))


def slow(binary):
    """A sync takes 2 s: confirms take that long, deliveries and acknowledgements do not."""
    with broker_on(binary) as (broker, disk):
        publisher = prepare(broker)
        plain, work = Consumer(broker.port, "plain", 5), Consumer(broker.port, "work", 1)
        disk.say(b"S")
        began = time.monotonic()
        publisher.publish("plain", 3000)
        for _ in range(30):
            plain.ack(plain.next("consumers do not go on"))
        publisher.look()
        check(time.monotonic() - began >= 2 or ("plain", 3000) not in publisher.confirmed, "confirmed before its sync")
        publisher.settle("no confirm on a slow disk")
        check(time.monotonic() - began >= 2, "confirmed before the sync had ended")
        work.wire.nack(work.ch, work.next("no delivery").tag)
        work.ack(work.next("the retry does not come"))
        disk.say(b"0")
        publisher.settle_one("plain", 3001)
        after_kill(broker, publisher, (plain, work))


def flood(binary):
    """A publisher without confirms that is much faster than the disk is read no further; consumers go on."""
    mib, size, count = 1 << 20, 16384, 5120
    flags = ("--tail-memory-bytes", str(16 * mib))
    with broker_on(binary, flags=flags) as (broker, disk):
        publisher = prepare(broker)
        plain = Consumer(broker.port, "plain", 5)
        before = broker.rss_mib()
        wire = Wire(broker.port, timeout=120)
        channel = wire.open()
        wire.declare(channel, "other")
        disk.say(b"S")

        def send():
            for _ in range(count):
                wire.publish(channel, "", "other", b"x" * size, flush=True)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        end = time.monotonic() + 8   # a few syncs; without the pause all would be taken in one second
        while sender.is_alive() and time.monotonic() < end:
            plain.ack(plain.next("consumers do not go on"))
            publisher.publish("plain", len(publisher.sent) + 100000)
            sender.join(0.02)
        disk.say(b"0")
        sender.join(DEADLINE_S)
        check(not sender.is_alive(), "the publisher is held up for good")
        grown = broker.peak_mib() - before
        check(grown < 48, "%d MiB published, memory grew by %d MiB" % (size * count // mib, grown))
        publisher.settle("no confirm")
        until(lambda: wire.depth(channel, "other") == count, "not all that was published is there")
        after_kill(broker, publisher, (plain,))


def full_for_real(binary):
    """A file system of 8 MiB in memory is filled by a publisher until it is refused; consumers make room again."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tarrymq-test"]
    with broker_on(binary, mount, ("--disk-free-min-bytes", "1000000")) as (broker, _):
        publisher = prepare(broker)
        n = 100
        end = time.monotonic() + DEADLINE_S
        while "disk alarm" not in broker.log() and publisher.refused == 0:
            check(time.monotonic() < end, "never full")
            for _ in range(50 if publisher.waiting() < 100 else 0):
                publisher.publish("plain", n)
                n += 1
            publisher.look(0.05)
        until(lambda: "disk alarm" in broker.log(), "no disk alarm")
        # It goes on serving; what is consumed is freed and the alarm ends. What was on its way may fill it again.
        plain = Consumer(broker.port, "plain", 200)
        end = time.monotonic() + DEADLINE_S
        while "disk alarm is over" not in broker.log() or publisher.waiting() > 0:
            check(time.monotonic() < end, "room came back and nobody noticed, or no word on what was published before")
            publisher.look(0.05)
            try:
                plain.ack(plain.next("", 0.05))
            except Fail:
                pass
        publisher.settle_one("plain", 1000000)
        after_kill(broker, publisher, (plain,))


CASES = (
    ("full: refused, consumers go on, and on by itself", full),
    ("writes fail: the same", eio_write),
    ("syncs fail: the same", eio_sync),
    ("no descriptors: who needs none goes on", no_descriptors),
    ("a sync takes 2 s: only confirms wait for it", slow),
    ("a publisher faster than a slow disk waits for it", flood),
    ("a real full file system", full_for_real),
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker", required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    failed = 0
    for name, run in CASES:
        if args.only not in name:
            continue
        try:
            run(args.broker)
            print("PASS disk: %s" % name, flush=True)
        except Skip as why:
            print("SKIP disk: %s -- %s" % (name, why), flush=True)
        except Exception as why:  # whatever it is, it is this case's verdict
            failed += 1
            print("FAIL disk: %s -- %s %s" % (name, type(why).__name__, why), flush=True)
    return 1 if failed else 0


sys.exit(main())
