#!/usr/bin/python3
"""Memory and disk alarms: publishers are told and stopped, consumers are not. Limits of a vhost. With brokers of its own.

The disk alarm is raised by a file that takes the room away, and ends when the file does.
"""
import json
import os
import struct
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, scratch  # noqa: E402
from report import Report, Skip, check  # noqa: E402
from wire_client import DEADLINE_S, Client, queue_declare  # noqa: E402
from wire import Confirm, Delivery, Gone, Method, short  # noqa: E402

GB = 1 << 30
DURABLE_EXCLUSIVE = 6  # flags of queue.declare
BLOCKED, UNBLOCKED = (0, 10, 60), (0, 10, 61)


def publisher(broker, **options):
    c = Client(broker.amqp, capabilities=["connection.blocked"], **options)
    c.confirm(1)
    return c


def told(c, which, within=DEADLINE_S):
    end = time.monotonic() + within
    while time.monotonic() < end:
        c.kept += c.take_early() + c.poll(0.1)
        for i, e in enumerate(c.kept):
            if isinstance(e, Method) and (e.channel, e.cls, e.mid) == which:
                return c.kept.pop(i).args
    check(False, "not told %s; came: %s" % (which, c.kept))


def confirmed(c, seconds, before=()):
    """{tag: ok} of the confirms that come within that time."""
    end, out = time.monotonic() + seconds, {}
    while True:
        for e in [e for e in c.kept if isinstance(e, Confirm)]:
            c.kept.remove(e)
            for tag in range(1 if e.multiple else e.tag, e.tag + 1):
                if tag not in before:
                    out.setdefault(tag, e.ok)
        left = end - time.monotonic()
        if left <= 0:
            return out
        c.kept += c.take_early() + c.poll(left)


def silent(c):
    c.kept += c.take_early() + c.poll(0.2)
    check(not c.kept, "came: %s" % c.kept)


def http(broker, method, path, body=None):
    request = urllib.request.Request("http://127.0.0.1:%d/api/%s" % (broker.http, path), method=method,
                                     data=None if body is None else json.dumps(body).encode(),
                                     headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"})
    answer = urllib.request.urlopen(request, timeout=DEADLINE_S).read()
    return json.loads(answer) if answer else None


def memory():
    """The limit is below what any process needs, so the alarm is on as soon as somebody looks."""
    with scratch() as folder, Broker(folder, "--memory-limit-bytes", "1") as broker:
        scout = publisher(broker)
        scout.publish(1, "", "q-none", b"", flush=True)
        told(scout, BLOCKED)
        scout.close()
        consumer = publisher(broker)
        deaf = Client(broker.amqp)  # has not announced the capability: blocked, but not told
        queue = consumer.temp(name="q-alarm")
        consumer.consume(1, queue, "t")
        one = publisher(broker)
        one.publish(1, "", queue, b"1")
        one.publish(1, "", queue, b"2")
        one.flush()
        reason = told(one, BLOCKED)
        check(b"memory" in reason, "reason %r" % reason)
        d = consumer.next(Delivery)  # what came before it was stopped goes on, to whoever only consumes
        check(d.body == b"1", "%s" % (d,))
        consumer.ack(1, d.tag)
        consumer.sync()
        deaf.publish(1, "", queue, b"3", flush=True)
        check(consumer.next(Delivery).body == b"3", "the first publish of another")
        check(one.next(Confirm).tag == 1, "confirm of the first")
        silent(one)
        silent(deaf)
        silent(consumer)
        check(consumer.depth(1, queue) == 0, "the second publish was taken")
        end = time.monotonic() + DEADLINE_S
        while True:   # the scout's connection may be listed a little longer than it is there
            states = sorted(c["state"] for c in http(broker, "GET", "connections"))
            if states == ["blocked", "blocked", "running"]:
                break
            check(time.monotonic() < end, "states %s" % states)
        check(broker.stop() == 0, "no clean stop")


def room_on(folder):
    st = os.statvfs(folder)
    return st.f_bavail * st.f_frsize


def disk():
    with scratch() as folder:
        free = room_on(folder)
        if free < 3 * GB:
            raise Skip("less than 3 GB are free")
        with Broker(folder, "--disk-free-min-bytes", str(free - GB)) as broker:
            one, early, consumer = publisher(broker), publisher(broker), publisher(broker)
            plain = Client(broker.amqp, capabilities=["connection.blocked"])  # no confirms: a loss would be silent
            queue = consumer.temp(name="q-alarm", flags=DURABLE_EXCLUSIVE)
            dying = consumer.temp({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}, "q-dying", DURABLE_EXCLUSIVE)
            for key, body in ((queue, b"early"), (dying, b"dead")):
                early.publish(1, "", key, body, flush=True)
                check(early.next(Confirm).ok, "refused before the alarm")
            held = consumer.get(dying, no_ack=False)
            hog = os.open(os.path.join(folder, "hog"), os.O_CREAT | os.O_WRONLY)
            try:
                try:
                    os.posix_fallocate(hog, 0, 2 * GB)
                except OSError as error:
                    raise Skip("cannot take room away: %s" % error)
                reason = told(early, BLOCKED)
                check(b"disk" in reason, "reason %r" % reason)
                broker.logged(r"disk alarm: \d+ bytes are free on the disk of .*, disk_free_min_bytes is %d" % (free - GB))
                consumer.consume(1, queue, "t")
                d = consumer.next(Delivery)
                check(d.body == b"early", "%s" % (d,))
                consumer.ack(1, d.tag)
                # There is room still: what was under way when publishers were stopped is not lost.
                consumer.method(1, 60, 90, struct.pack(">QB", held.tag, 0))
                plain.publish(1, "", queue, b"plain", flush=True)
                told(plain, BLOCKED)
                under_way = sorted(consumer.next(Delivery).body for _ in range(2))
                check(under_way == [b"dead", b"plain"], "%s" % under_way)
                confirms, last = {}, 0
                while last in confirms or not last:  # the first one that comes under the alarm is the last one that is taken
                    check(last < 20, "all were taken: %s" % confirms)
                    last += 1
                    one.publish(1, "", queue, b"%d" % last, flush=True)
                    confirms.update(confirmed(one, 0.5, confirms))
                told(one, BLOCKED)
                consumer.sync()
                early.sync()  # told, but it may do all but publish
            finally:
                os.close(hog)
                os.unlink(os.path.join(folder, "hog"))
            end = time.monotonic() + DEADLINE_S
            told(one, UNBLOCKED)
            told(early, UNBLOCKED)
            while last not in confirms:
                confirms.update(confirmed(one, 0.1, confirms))
                check(time.monotonic() < end, "the publishes that had to wait: %s" % confirms)
            check(confirms[last], "the publish that had to wait was refused: %s" % confirms)
            expected = [b"%d" % tag for tag in sorted(confirms) if confirms[tag]]
            bodies = [consumer.next(Delivery).body for _ in expected]
            check(bodies == expected, "%s, expected %s" % (bodies, expected))
            silent(consumer)
            check(broker.stop() == 0, "no clean stop")


def vhost():
    with scratch() as folder, Broker(folder) as broker:
        http(broker, "PUT", "vhosts/v", {})
        http(broker, "PUT", "permissions/v/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        http(broker, "PUT", "vhost-limits/v/max-queues", {"value": 2})
        http(broker, "PUT", "vhost-limits/v/max-connections", {"value": 1})
        c = Client(broker.amqp, vhost="v")
        try:
            Client(broker.amqp, vhost="v")
            check(False, "a second connection")
        except Gone as closed:
            check("530" in str(closed) and "connection limit (1) is reached" in str(closed), str(closed))
        Client(broker.amqp).close()  # another vhost has limits of its own
        c.exchange("d", "x-delayed-message", {"x-delayed-type": "direct"})  # its holding queue does not count
        c.temp(name="q1")
        c.temp(name="q2")
        c.temp(name="q1")  # is there
        c.ask(50, 10, queue_declare("q3"), 406, r"queue limit in vhost 'v' \(2\) is reached")
        c.call(1, 50, 40, b"\0\0" + short("q1") + b"\0", (50, 41))
        c.temp(name="q3")
        c.close()
        end = time.monotonic() + DEADLINE_S
        while True:  # its place is free soon after it
            try:
                c = Client(broker.amqp, vhost="v")
                break
            except Gone:
                check(time.monotonic() < end, "the place of a closed connection is not free")
        http(broker, "DELETE", "vhost-limits/v/max-connections")
        http(broker, "DELETE", "vhost-limits/v/max-queues")
        another = Client(broker.amqp, vhost="v")
        for i in range(3):
            another.temp()
        check(broker.stop() == 0, "no clean stop")


def main():
    report = Report("limits")
    report.run([("over the memory limit publishers are told and stopped, consumers are not", memory),
                ("without room on the disk too, and it ends by itself", disk),
                ("a vhost takes so many queues and connections and no more", vhost)])
    report.end()


main()
