#!/usr/bin/python3
"""Exchange types, delayed messages and deduplication on a bare socket, with a broker of its own that is also killed.

Delays are lower bounds to the millisecond; that something has not come is asked for while it cannot have.
"""
import json
import os
import struct
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, scratch  # noqa: E402
from report import Report, check  # noqa: E402
from wire_client import DEADLINE_S, Client, exchange_declare, queue_declare  # noqa: E402
from wire import Confirm, Delivery, Returned, short, table  # noqa: E402

BROKER = None
LATE_MS = 30000  # how late something may be on a busy machine


def connect():
    return Client(BROKER.amqp)


def http(path, body=None):
    request = urllib.request.Request("http://127.0.0.1:%d/api/%s" % (BROKER.http, path),
                                     headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="},
                                     data=None if body is None else json.dumps(body).encode())
    return json.load(urllib.request.urlopen(request, timeout=DEADLINE_S))


def cpu_seconds():
    total = 0
    tasks = "/proc/%d/task" % BROKER.process.pid
    for task in os.listdir(tasks):
        with open(os.path.join(tasks, task, "schedstat")) as file:
            total += int(file.read().split()[0])
    return total / 1e9


def depth(c, queue):
    return c.depth(1, queue)


def confirmed(c, count=1):
    """That many confirms, all of them acks."""
    before, told = getattr(c, "told", 0), set()
    while len(told) < count:
        event = c.next(Confirm)
        check(event.ok, "nacked: %s" % (event,))
        told.update(range(before + 1 if event.multiple else event.tag, event.tag + 1))
    c.told = before + count


def delayed(c, name, kind, flags=4, **more):
    return c.exchange(name, "x-delayed-message", {"x-delayed-type": kind, **more}, flags)


# -- Types

def consistent_hash(c):
    c.exchange("ch", "x-consistent-hash")
    queues = {c.temp(): weight for weight in (1, 2, 5)}
    for queue, weight in queues.items():
        c.bind(queue, "ch", str(weight))
    keys = ["key-%d" % i for i in range(4000)]
    for key in keys:
        c.publish(1, "ch", key, key.encode(), persistent=False)
    c.flush()
    c.sync()
    counts = {weight: depth(c, queue) for queue, weight in queues.items()}
    check(sum(counts.values()) == 4000, "in the queues: %s" % counts)
    for weight, count in counts.items():  # 500, 1000, 2500; sigma is below 32
        check(abs(count - 500 * weight) < 200, "shares by weight: %s" % counts)
    at = {}
    for queue in queues:
        while True:
            m = c.get(queue)
            if m is None:
                break
            at[m.key] = queue
    for key in keys[:300]:
        c.publish(1, "ch", key, b"again", persistent=False)
    c.flush()
    c.sync()
    for key in keys[:300]:
        check(c.get(at[key]) is not None, "%s did not go where it went before" % key)
    extra = c.temp()  # one more queue moves only what it gets
    c.bind(extra, "ch", "2")
    for key in keys[:300]:
        c.publish(1, "ch", key, key.encode(), persistent=False)
    c.flush()
    c.sync()
    moved = depth(c, extra)
    check(10 < moved < 120, "%d of 300 moved to a queue with a fifth of the weight" % moved)
    for queue in queues:
        while True:
            m = c.get(queue)
            if m is None:
                break
            check(at[m.key] == queue, "%s moved between old queues" % m.key)
    for key in ("0", "-1", "1.5", "", "many", "1000000001"):
        c.ask(50, 20, b"\0\0" + short(extra) + short("ch") + short(key) + b"\0" + table(None), 406, "weight")


def consistent_hash_on_header_and_property(c):
    for name, args, send in (
            ("ch-header", {"hash-header": "user"}, lambda e, v, k: c.send_headers(e, k, {"user": v})),
            ("ch-header2", {"x-hash-on": "user"}, lambda e, v, k: c.send_headers(e, k, {"user": v})),
            ("ch-property", {"hash-property": "message_id"}, lambda e, v, k: c.send(e, k, flags=1 << 7, properties=short(v))),
            ("ch-property2", {"hash-property": "correlation_id"}, lambda e, v, k: c.send(e, k, flags=1 << 10, properties=short(v)))):
        c.exchange(name, "x-consistent-hash", args)
        queues = [c.temp(), c.temp()]
        for queue in queues:
            c.bind(queue, name, "1")
        for user in range(64):   # the queues' names are random: of fewer users all may now and then belong to one queue
            for key in range(5):
                send(name, "user-%d" % user, "key-%d" % key)
        c.sync()
        counts = [depth(c, queue) for queue in queues]
        check(sum(counts) == 320 and all(n % 5 == 0 for n in counts) and 0 not in counts, "%s: %s" % (name, counts))
    c.ask(40, 10, exchange_declare("ch-bad", "x-consistent-hash", {"hash-header": "a", "hash-property": "message_id"}), 406)
    c.ask(40, 10, exchange_declare("ch-bad", "x-consistent-hash", {"hash-property": "app_id"}), 406, "hash-property")
    c.ask(40, 10, exchange_declare("ch-header", "x-consistent-hash", {"hash-header": "other"}), 406, "inequivalent arg")


def random_exchange(c):
    c.exchange("r", "x-random")
    queues = [c.temp() for _ in range(4)]
    for queue in queues:
        c.bind(queue, "r", "")
        c.bind(queue, "r", "again")  # two bindings are no second chance
    for _ in range(2000):
        c.publish(1, "r", "k", b"m", persistent=False)
    c.flush()
    c.sync()
    counts = [depth(c, queue) for queue in queues]
    check(sum(counts) == 2000 and all(380 < n < 620 for n in counts), "%s" % counts)  # 500 each, sigma is 19


def headers_exchange(c):
    c.exchange("h", "headers")
    queues = {}
    for match in ("all", "any", "all-with-x", "any-with-x"):
        queues[match] = c.temp()
        c.bind(queues[match], "h", "", {"x-match": match, "a": "1", "x-b": 2})
    for headers, expected in (({"a": "1"}, {"all", "any", "any-with-x"}), ({"x-b": 2}, {"any-with-x"}),
                              ({"a": "1", "x-b": 2}, {"all", "any", "all-with-x", "any-with-x"}), ({"a": "2", "x-b": 3}, set()),
                              ({"a": 1}, set()), ({}, set())):
        c.send_headers("h", "k", headers)
        c.sync()
        got = {match for match, queue in queues.items() if c.get(queue) is not None}
        check(got == expected, "%s went to %s" % (headers, got))
    c.ask(50, 20, b"\0\0" + short(queues["all"]) + short("h") + short("") + b"\0" + table({"x-match": "some"}), 406, "x-match")


def exchange_to_exchange_and_alternate(c):
    """Chains, a cycle of bindings, a cycle of alternate exchanges; a message arrives once."""
    for name in ("e2e-1", "e2e-2", "e2e-3"):
        c.exchange(name, "fanout", flags=0)
    queue = c.temp()
    c.bind(queue, "e2e-3")
    c.bind(queue, "e2e-1")
    for source, destination in (("e2e-1", "e2e-2"), ("e2e-2", "e2e-3"), ("e2e-3", "e2e-1")):
        c.bind_exchange(destination, source)
    c.send("e2e-1", "k")
    c.sync()
    check(depth(c, queue) == 1, "%d copies" % depth(c, queue))
    c.exchange("alt-1", "direct", {"alternate-exchange": "alt-2"}, 0)
    c.exchange("alt-2", "direct", {"alternate-exchange": "alt-1"}, 0)
    c.send("alt-1", "nowhere", b"lost", publish_flags=1)
    check(c.next(Returned).code == 312, "return code")
    last = c.temp()
    c.bind(last, "alt-2", "found")
    c.send("alt-1", "found", b"x", publish_flags=1)
    c.sync()
    check(depth(c, last) == 1 and not c.kept, "alternate exchange: %s" % c.kept)
    for name in ("e2e-1", "e2e-2", "e2e-3", "alt-1", "alt-2"):
        c.call(1, 40, 20, b"\0\0" + short(name) + b"\0", (40, 21))


def topic_with_many_bindings(c):
    """100,000 bindings: what a publish costs goes by its words, not by them."""
    c.exchange("t-many", "topic")
    c.exchange("t-few", "topic")
    quiet, queue = c.temp(), c.temp()
    for name in ("t-many", "t-few"):
        c.bind(queue, name, "a.*.c.#")
        c.bind(queue, name, "#.z")
    for i in range(100000):
        c.method(1, 50, 20, b"\0\0" + short(quiet) + short("t-many") + short("k%d.*.w%d.#" % (i % 1000, i)) + b"\1" + table(None),
                 flush=i % 500 == 0)
    c.sync()

    def seconds(name, count):
        """Of the broker's threads: what else the machine does is left out."""
        began = cpu_seconds()
        for i in range(count):
            c.publish(1, name, "a.%d.c.d" % i, b"", persistent=False)
        c.flush()
        c.sync()
        return cpu_seconds() - began

    for name in ("t-few", "t-many"):
        seconds(name, 200)
    few, many = min(seconds("t-few", 500) for _ in range(5)), min(seconds("t-many", 500) for _ in range(5))
    check(many < 10 * few + 0.05, "500 publishes: %.4f s with 2 bindings, %.4f s with 100,000" % (few, many))
    check(depth(c, queue) == 2 * 200 + 10 * 500, "%d arrived" % depth(c, queue))


# -- Delayed messages

def delays_by_milliseconds(c):
    delayed(c, "d1", "direct")
    queue = c.temp()
    c.bind(queue, "d1", "k")
    c.consume(1, queue, "t", no_ack=True)
    # In one write: between two of them the delay of an earlier one might pass.
    began = time.monotonic()
    for ms in (400, 100, 250, 0, -50):
        c.publish(1, "d1", "k", b"%d" % ms, {"x-delay": ms}, persistent=False)
    c.publish(1, "d1", "k", b"none", persistent=False)
    c.flush()
    arrived = {}
    order = []
    while len(arrived) < 6:
        d = c.next(Delivery)
        arrived[d.body] = (time.monotonic() - began) * 1000
        order.append(d.body)
        check((d.exchange, d.key, d.redelivered) == ("d1", "k", False), "delivery %s" % (d,))
        if d.body != b"none":
            sent = int(d.body)
            check(d.headers["x-delay"] == (-sent if sent > 0 else sent), "x-delay of %d is %s" % (sent, d.headers))
    check(order == [b"0", b"-50", b"none", b"100", b"250", b"400"], "order %s" % order)
    for ms in (100, 250, 400):
        check(ms <= arrived[b"%d" % ms] < ms + LATE_MS, "%d ms took %.1f" % (ms, arrived[b"%d" % ms]))


def every_number_saturates(c):
    """Any integer of 64 bits, and fractions: what is too far away waits, and never comes at once."""
    delayed(c, "d2", "fanout")
    queue = c.temp()
    c.bind(queue, "d2")
    for raw in (b"l" + struct.pack(">q", 2**63 - 1), b"L" + struct.pack(">Q", 2**64 - 1), b"I" + struct.pack(">i", 2**31 - 1),
                b"i" + struct.pack(">I", 2**32 - 1), b"l" + struct.pack(">q", 2**32), b"l" + struct.pack(">q", 2**32 + 1),
                b"l" + struct.pack(">q", 2**53), b"d" + struct.pack(">d", 1e300), b"L" + struct.pack(">Q", 2**63)):
        c.send_headers("d2", "", {"x-delay": raw}, raw)
    for raw in (b"b\x80", b"l" + struct.pack(">q", -2**63), b"s" + struct.pack(">h", -1), b"d" + struct.pack(">d", -0.5)):
        c.send_headers("d2", "", {"x-delay": raw}, b"now")
    began = time.monotonic()
    c.send_headers("d2", "", {"x-delay": b"B\x1e"}, b"soon")
    c.send_headers("d2", "", {"x-delay": 20.5}, b"sooner")
    c.consume(1, queue, "t", no_ack=True)
    bodies = [c.next(Delivery).body for _ in range(6)]
    check(bodies[:4] == [b"now"] * 4 and sorted(bodies[4:]) == [b"soon", b"sooner"], "%s" % bodies)
    check(time.monotonic() - began >= 0.030, "early")
    end = time.monotonic() + DEADLINE_S
    while True:   # figures follow
        waiting = http("queues/%2F/amq.delayed-d2")
        if waiting["messages"] == 9:
            break
        check(time.monotonic() < end, "listed: %s" % waiting)
    check(waiting["internal"], "listed: %s" % waiting)
    listed = http("queues/%2F/amq.delayed-d2/delayed")
    now = time.time() * 1000
    check(listed["total_count"] == 9 and all(now + 2e9 < m["due_at"] < 2.6e14 for m in listed["items"]), "listed: %s" % listed)
    for bad in ("5000", True, None, {}, [5]):
        c.send_headers("d2", "", {"x-delay": bad}, b"bad")
        c.refused(406, "invalid header 'x-delay'")


def delayed_declarations(c):
    for args in (None, {"x-delayed-type": 5}, {"x-delayed-type": "x-delayed-message"}, {"x-delayed-type": "none"}):
        c.ask(40, 10, exchange_declare("d-bad", "x-delayed-message", args), 406, "x-delayed-type")
    c.ask(40, 10, exchange_declare("x" * 244, "x-delayed-message", {"x-delayed-type": "direct"}), 406, "244 bytes")
    delayed(c, "d3", "direct")
    delayed(c, "d3", "direct")
    c.ask(40, 10, exchange_declare("d3", "x-delayed-message", {"x-delayed-type": "topic"}), 406, "inequivalent arg 'x-delayed-type'")
    holding = "amq.delayed-d3"
    for cls, mid, args in ((50, 10, queue_declare(holding, flags=1)), (50, 10, queue_declare(holding)),
                           (60, 70, b"\0\0" + short(holding) + b"\1"), (50, 30, b"\0\0" + short(holding) + b"\0"),
                           (60, 20, b"\0\0" + short(holding) + short("") + b"\0" + table(None)),
                           (50, 40, b"\0\0" + short(holding) + b"\0"),
                           (50, 20, b"\0\0" + short(holding) + short("amq.direct") + short("k") + b"\0" + table(None))):
        c.ask(cls, mid, args, 403, "internal")
    c.send("", holding)
    c.refused(403, "internal")
    c.call(1, 40, 20, b"\0\0" + short("d3") + b"\0", (40, 21))
    delayed(c, "d3", "direct")  # its name is free at once, and the new one is empty
    check(http("queues/%2F/amq.delayed-d3")["messages"] == 0, "not empty")


def inner_types_and_keys(c):
    queue, other, hidden = c.temp(), c.temp(), c.temp()
    delayed(c, "d-topic", "topic")
    c.bind(queue, "d-topic", "a.#")
    c.bind(other, "d-topic", "x.*")
    c.bind(hidden, "d-topic", "y")
    c.send_headers("d-topic", "a.b", {"x-delay": 50, "CC": ["x.1"], "BCC": ["y"]}, b"cc")
    delayed(c, "d-headers", "headers")
    c.bind(queue, "d-headers", "", {"x-match": "all", "v": "1"})
    c.send_headers("d-headers", "", {"x-delay": 100, "v": "1"}, b"headers")
    for q, bodies in ((queue, [b"cc", b"headers"]), (other, [b"cc"]), (hidden, [b"cc"])):
        c.consume(1, q, q, no_ack=True)
        for body in bodies:
            d = c.next(Delivery)
            check((d.body, d.consumer) == (body, q), "%s at %s" % (d, q))
            check("BCC" not in d.headers, "BCC is shown: %s" % d.headers)
    sent = {"routing_key": "a.b", "payload": "http", "payload_encoding": "string",
            "properties": {"headers": {"x-delay": 50, "CC": ["x.1"], "BCC": ["y"]}}}
    began = time.monotonic()
    check(http("exchanges/%2F/d-topic/publish", sent) == {"routed": True}, "not routed")
    for d in (c.next(Delivery), c.next(Delivery), c.next(Delivery)):
        check(d.body == b"http" and "BCC" not in d.headers and d.headers["CC"] == ["x.1"], "%s" % (d,))
    check(time.monotonic() - began >= 0.050, "early")
    # Bound in front of another one: it waits once.
    c.exchange("d-front", "fanout")
    c.bind_exchange("d-topic", "d-front")
    began = time.monotonic()
    c.send_headers("d-front", "a.c", {"x-delay": 150}, b"through")
    d = c.next(Delivery)
    check(d.body == b"through" and d.exchange == "d-front" and time.monotonic() - began >= 0.150, "%s" % (d,))


def expiration_begins_after_the_delay(c):
    delayed(c, "d-ttl", "fanout")
    queue = c.temp()
    c.bind(queue, "d-ttl")
    c.confirm(1)
    c.consume(1, queue, "t", no_ack=True)   # before: it has 100 ms to be taken
    c.send("d-ttl", "", b"m", 1 << 13 | 1 << 8, table({"x-delay": 300}) + short("100"))
    confirmed(c)
    check(c.next(Delivery).body == b"m", "it expired while it waited")


def mandatory_delayed(c):
    delayed(c, "d-m", "direct")
    queue = c.temp()
    c.bind(queue, "d-m", "k")
    c.confirm(1)
    c.send_headers("d-m", "nowhere", {"x-delay": 60000}, b"lost", mandatory=True)
    check(c.next(Returned) == (312, b"lost"), "not returned")
    confirmed(c)
    c.send_headers("d-m", "k", {"x-delay": 100}, b"kept", mandatory=True)
    c.send_headers("d-m", "later", {"x-delay": 3000}, b"later")  # bound before it is due
    confirmed(c, 2)
    c.bind(queue, "d-m", "later")
    check(http("queues/%2F/amq.delayed-d-m")["messages"] <= 2, "the returned one waits")
    c.consume(1, queue, "t", no_ack=True)
    check([c.next(Delivery).body for _ in range(2)] == [b"kept", b"later"], "deliveries")
    check(not [e for e in c.kept if isinstance(e, Returned)], "returned too: %s" % c.kept)


def many_delayed_in_due_order(c):
    delayed(c, "d-many", "fanout")
    queue = c.temp()
    c.bind(queue, "d-many")
    c.confirm(1)
    count = 5000
    for i in range(count):
        c.publish(1, "d-many", "", struct.pack(">I", i), {"x-delay": 1000 + 7 * i % 1000}, flush=i % 500 == 0)
    c.flush()
    confirmed(c, count)
    c.consume(1, queue, "t", no_ack=True)
    seen = []
    while len(seen) < count:
        d = c.next(Delivery)
        seen.append(d.body)
    check(len(set(seen)) == count, "doubled or lost")


def delayed_survives_a_kill(c):
    """Durable and confirmed before SIGKILL: each comes once, none early, also what is sent on at that moment."""
    c.call(1, 40, 10, exchange_declare("d-kill", "x-delayed-message", {"x-delayed-type": "direct"}, 2), (40, 11))
    c.declare(1, "q-kill")
    c.bind("q-kill", "d-kill", "k")
    c.confirm(1)
    began = time.time()
    count = 600
    for i in range(count):  # a third is due before or around the kill
        ms = 3600000 if i % 3 == 0 else 1 + i if i % 3 == 1 else 1500
        c.publish(1, "d-kill", "k", b"%d %d" % (i, ms), {"x-delay": ms})
    c.flush()
    confirmed(c, count)
    c.sync()
    BROKER.kill()
    c.close()
    BROKER.start()
    again = connect()
    due = [i for i in range(count) if i % 3]
    again.consume(1, "q-kill", "t")
    got = []
    while len(got) < len(due):
        d = again.next(Delivery, "delivery after the restart, %d of %d came" % (len(got), len(due)))
        i, ms = map(int, d.body.split())
        check((time.time() - began) * 1000 >= ms, "%d came before its %d ms" % (i, ms))
        got.append(i)
        again.ack(1, d.tag)
    again.sync()
    check(sorted(got) == due, "doubled or lost: %d, %d different" % (len(got), len(set(got))))
    end = time.monotonic() + DEADLINE_S
    while http("queues/%2F/amq.delayed-d-kill")["messages"] != count - len(due):
        check(time.monotonic() < end, "waiting after the restart")
    check(again.depth(1, "q-kill") == 0, "more in the queue")
    again.call(1, 40, 20, b"\0\0" + short("d-kill") + b"\0", (40, 21))
    again.call(1, 50, 40, b"\0\0" + short("q-kill") + b"\0", (50, 41))
    again.close()
    check(BROKER.stop() == 0, "no clean stop")
    BROKER.start()
    check(not [q for q in http("queues") if "kill" in q["name"]], "queues: %s" % [q["name"] for q in http("queues")])


# -- Deduplication

def dedup_in_a_queue(c):
    queue = c.temp({"x-message-deduplication": True, "x-cache-size": 3})
    c.confirm(1)
    for value in ("a", "a", "b", 5, 5, "c", "a", "b"):  # a 3-entry cache: b, 5, c push a out; then a, b push b, 5 out
        c.send_headers("", queue, {"x-deduplication-header": value}, str(value).encode())
    c.send("", queue, b"without")
    c.send("", queue, b"without")
    confirmed(c, 10)
    bodies = []
    while True:
        m = c.get(queue)
        if m is None:
            break
        bodies.append(m.body)
    check(bodies == [b"a", b"b", b"5", b"c", b"a", b"b", b"without", b"without"], "%s" % bodies)


def unroutable():
    return http("overview")["message_stats"].get("drop_unroutable", 0)


def dedup_in_an_exchange(c):
    c.exchange("dd", "fanout", {"x-message-deduplication": True, "x-deduplication-header": "id", "x-cache-ttl": 200})
    one, two = c.temp(), c.temp()
    c.bind(one, "dd")
    c.bind(two, "dd")
    c.confirm(1)
    dropped = unroutable()
    began = time.monotonic()
    for _ in range(5):
        c.send_headers("dd", "k", {"id": "x"}, b"x", mandatory=True)
    c.send_headers("dd", "k", {"id": "y", "x-cache-ttl": 60000}, b"y", mandatory=True)
    confirmed(c, 6)
    taken = time.monotonic()   # all six were, by now
    check(taken - began > 0.2 or (depth(c, one), depth(c, two)) == (2, 2), "%d, %d" % (depth(c, one), depth(c, two)))
    check(not [e for e in c.kept if isinstance(e, Returned)], "a duplicate was returned")
    before = depth(c, one)
    while time.monotonic() - taken < 0.25:  # until the cache has forgotten x
        c.sync()
    c.send_headers("dd", "k", {"id": "x"}, b"x")
    c.send_headers("dd", "k", {"id": "y"}, b"y")
    confirmed(c, 2)
    check(depth(c, one) == before + 1, "%d after %d" % (depth(c, one), before))
    c.send("", "no-such-queue", b"dropped")
    end = time.monotonic() + DEADLINE_S
    while unroutable() == dropped:
        check(time.monotonic() < end, "a message to nowhere is not counted")
    check(unroutable() == dropped + 1, "%d duplicates count as unroutable" % (unroutable() - dropped - 1))


def dedup_in_a_transaction(c):
    c.exchange("dd-tx", "fanout", {"x-message-deduplication": True})
    queue = c.temp()
    c.bind(queue, "dd-tx")
    c.call(1, 90, 10, b"", (90, 11))
    c.send_headers("dd-tx", "", {"x-deduplication-header": "x"})
    c.call(1, 90, 30, b"", (90, 31))  # rolled back: it was not published
    for _ in range(2):
        c.send_headers("dd-tx", "", {"x-deduplication-header": "x"})
    c.call(1, 90, 20, b"", (90, 21))
    check(depth(c, queue) == 1, "%d messages" % depth(c, queue))


def dedup_and_what_was_not_taken(c):
    """Who is told that his message went nowhere sends it again: that is no duplicate."""
    c.exchange("dd-again", "fanout", {"x-message-deduplication": True})
    c.confirm(1)
    again = {"x-deduplication-header": "again"}
    c.send_headers("dd-again", "", again, mandatory=True)
    confirmed(c, 1)
    check([e for e in c.kept if isinstance(e, Returned)], "not returned")
    full = c.temp({"x-max-length": 1, "x-overflow": "reject-publish"})
    c.bind(full, "dd-again")
    c.send_headers("dd-again", "", again)
    confirmed(c, 1)
    check(depth(c, full) == 1, "taken for a duplicate of what was returned")
    refused = {"x-deduplication-header": "refused"}
    c.send_headers("dd-again", "", refused)
    check(not c.next(Confirm).ok, "not refused")
    check(c.get(full), "nothing in the queue")
    c.send_headers("dd-again", "", refused)
    confirmed(c, 1)
    check(depth(c, full) == 1, "taken for a duplicate of what was refused")
    check(c.get(full), "nothing in the queue")
    c.send_headers("dd-again", "", refused)  # now it is one
    confirmed(c, 1)
    check(depth(c, full) == 0, "a duplicate was taken")


def dedup_arguments(c):
    for args in ({"x-cache-size": 5}, {"x-cache-ttl": 5}, {"x-deduplication-header": "h"}, {"x-cache-size": 0}, {"x-cache-size": "5"},
                 {"x-cache-ttl": 0}, {"x-cache-ttl": -5}, {"x-deduplication-header": 5}, {"x-deduplication-header": ""}):
        name = next(iter(args))
        if args[name] not in (5, "h") or name == "x-deduplication-header" and args[name] == 5:
            args["x-message-deduplication"] = True
        c.ask(50, 10, queue_declare("dd-bad", args), 406, "invalid arg '%s'" % name)
        c.ask(40, 10, exchange_declare("dd-bad", "direct", args), 406, "invalid arg '%s'" % name)
    c.ask(50, 10, queue_declare("dd-bad", {"x-message-deduplication": True, "x-delayed-retry-min": 5}), 406)


CHECKS = (
    ("x-consistent-hash: shares by weight, the same key the same queue", consistent_hash),
    ("x-consistent-hash on a header or a property", consistent_hash_on_header_and_property),
    ("x-random", random_exchange),
    ("headers: all, any, all-with-x, any-with-x", headers_exchange),
    ("cycles of exchange bindings and alternate exchanges end", exchange_to_exchange_and_alternate),
    ("a topic exchange with 100,000 bindings", topic_with_many_bindings),
    ("x-delayed-message: by due time, never early, x-delay negated", delays_by_milliseconds),
    ("x-delay of every kind of number saturates", every_number_saturates),
    ("declarations of x-delayed-message, and its queue is nobody else's", delayed_declarations),
    ("inner types, CC and BCC, exchange bindings", inner_types_and_keys),
    ("expiration begins when the delay is over", expiration_begins_after_the_delay),
    ("mandatory with a delay", mandatory_delayed),
    ("5000 delayed messages, each once", many_delayed_in_due_order),
    ("delayed messages over SIGKILL", delayed_survives_a_kill),
    ("deduplication in a queue", dedup_in_a_queue),
    ("deduplication in an exchange", dedup_in_an_exchange),
    ("deduplication in a transaction", dedup_in_a_transaction),
    ("deduplication and what was returned or refused", dedup_and_what_was_not_taken),
    ("arguments of deduplication", dedup_arguments),
)


def main():
    global BROKER
    report, only = Report("exchanges"), sys.argv[1:]

    def with_client(function):
        def run():
            client = connect()
            try:
                function(client)
            finally:
                client.close()
        return run

    with scratch() as folder, Broker(folder) as BROKER:
        report.run([(name, with_client(function)) for name, function in CHECKS if not only or function.__name__ in only])
    report.end()


main()
