#!/usr/bin/python3
"""Methods and errors of the protocol on a bare socket. Usage: protocol.py AMQP_URL [CHECK...].

Every wait is for an event, with a deadline.
"""
import os
import re
import struct
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from report import Report, check  # noqa: E402
from wire_client import DEADLINE_S, Client, exchange_declare, publish_args, queue_declare  # noqa: E402
from wire import Closed, Confirm, Delivery, Method, Returned, long, short, table  # noqa: E402

PORT = 5672


def connect():
    return Client(PORT)


# -- Exchanges and queues: errors

def exchange_errors(c):
    c.ask(40, 10, exchange_declare("", "direct"), 403, "operation not permitted on the default exchange")
    c.ask(40, 10, exchange_declare("amq.mine", "direct"), 403, r"exchange name 'amq\.mine' contains reserved prefix 'amq\.\*'")
    c.ask(40, 10, exchange_declare("e1", "no-such-type"), 406, "unknown exchange type 'no-such-type'")
    c.ask(40, 10, exchange_declare("e-none", "", flags=1), 404, "no exchange 'e-none' in vhost '/'")
    c.ask(40, 20, b"\0\0" + short("amq.direct") + b"\0", 403, "deletion of system exchange 'amq.direct' in vhost '/' not allowed")
    c.ask(40, 20, b"\0\0" + short("") + b"\0", 403, "operation not permitted on the default exchange")
    c.call(1, 40, 20, b"\0\0" + short("e-none") + b"\0", (40, 21))
    c.exchange("e1", "direct")
    c.exchange("e1", "direct")
    c.call(1, 40, 10, exchange_declare("e1", "", flags=1), (40, 11))
    for kind, flags, args, pattern in (("topic", 4, None, "inequivalent arg 'type' for exchange 'e1' in vhost '/': "
                                        "received 'topic' but current is 'direct'"),
                                       ("direct", 6, None, "inequivalent arg 'durable'"),
                                       ("direct", 0, None, "inequivalent arg 'auto_delete'"),
                                       ("direct", 12, None, "inequivalent arg 'internal'"),
                                       ("direct", 4, {"alternate-exchange": "x"}, "inequivalent arg 'alternate-exchange'")):
        c.ask(40, 10, exchange_declare("e1", kind, args, flags), 406, pattern)
    q = c.temp()
    c.bind(q, "e1")
    c.ask(40, 20, b"\0\0" + short("e1") + b"\1", 406, "exchange 'e1' in vhost '/' in use")
    c.call(1, 40, 20, b"\0\0" + short("e1") + b"\0", (40, 21))
    c.ask(40, 10, exchange_declare("e2", "direct", {"alternate-exchange": 5}), 406, "alternate-exchange")
    c.ask(40, 10, exchange_declare("e2", "headers", {"alternate-exchange": {}}), 406, "alternate-exchange")


def publish_errors(c):
    c.send("none", "k")
    c.refused(404, "no exchange 'none' in vhost '/'")
    c.exchange("inner", "fanout", flags=12)
    c.send("inner", "k")
    c.refused(403, "cannot publish to internal exchange 'inner' in vhost '/'")
    for text in ("-1", "abc", "1.5", "", "4294967296", " 5"):
        c.send("", "q", flags=1 << 8, properties=short(text))
        c.refused(406, "invalid expiration '%s'" % re.escape(text))
    c.send("", "q", flags=1 << 4, properties=short("somebody"))
    c.refused(406, "user_id property set to 'somebody' but authenticated user was 'guest'")
    c.send("", "q", flags=1 << 4, properties=short("guest"))
    c.sync()
    for headers in ({"CC": "k"}, {"BCC": 5}, {"CC": ["a", 5]}, {"BCC": {}}):
        c.send_headers("", "q", headers)
        c.refused(406, next(iter(headers)))
    c.send("", "q", publish_flags=2)
    c.refused(540, "immediate=true", connection=True)


def queue_errors(c):
    q = c.temp({"x-message-ttl": 60000}, "q-errors")
    c.ask(50, 10, queue_declare("amq.mine"), 403, r"queue name 'amq\.mine' contains reserved prefix 'amq\.\*'")
    c.ask(50, 10, queue_declare("q-none", flags=1), 404, "no queue 'q-none' in vhost '/'")
    c.ask(50, 10, queue_declare(q), 406, "inequivalent arg 'x-message-ttl' for queue 'q-errors' in vhost '/': "
                                         "received none but current is the value '60000' of type 'long'")
    c.ask(50, 10, queue_declare(q, {"x-message-ttl": 60001}), 406, "inequivalent arg 'x-message-ttl'")
    c.call(1, 50, 10, queue_declare(q, {"x-message-ttl": b"I\0\0\xea\x60"}), (50, 11))
    for args in ({"x-message-ttl": -1}, {"x-message-ttl": "5"}, {"x-expires": 0}, {"x-max-length": -1}, {"x-max-length": 1.5},
                 {"x-max-length-bytes": "a"}, {"x-overflow": "drop-tail"}, {"x-overflow": 5}, {"x-max-priority": 256},
                 {"x-max-priority": -1}, {"x-dead-letter-exchange": 5}, {"x-dead-letter-routing-key": "k"},
                 {"x-delivery-limit": "5"}, {"x-single-active-consumer": "yes"}, {"x-consumer-timeout": -1},
                 {"x-queue-type": "memory"}, {"x-queue-type": 5}, {"x-message-deduplication": "yes"},
                 {"x-dead-letter-strategy": "never"}):
        name = next(iter(args))
        c.ask(50, 10, queue_declare("q-bad", args), 406, "invalid arg '%s' for queue 'q-bad' in vhost '/'" % name)
    c.ask(50, 10, queue_declare("q-bad", flags=1), 404, "q-bad")
    c.ask(50, 40, b"\0\0" + short("amq.retry-x") + b"\0", 403, "internal")
    c.call(1, 50, 40, b"\0\0" + short("q-none") + b"\0", (50, 41))
    c.ask(50, 30, b"\0\0" + short("q-none") + b"\0", 404, "no queue 'q-none'")
    c.ask(60, 70, b"\0\0" + short("q-none") + b"\0", 404, "no queue 'q-none'")
    c.ask(60, 20, b"\0\0" + short("q-none") + short("") + b"\0" + table(None), 404, "no queue 'q-none'")
    c.ask(50, 20, b"\0\0" + short("q-none") + short("amq.direct") + short("k") + b"\0" + table(None), 404, "no queue 'q-none'")
    c.ask(50, 20, b"\0\0" + short(q) + short("e-none") + short("k") + b"\0" + table(None), 404, "no exchange 'e-none'")
    c.ask(50, 20, b"\0\0" + short(q) + short("") + short("k") + b"\0" + table(None), 403, "default exchange")
    c.call(1, 50, 50, b"\0\0" + short(q) + short("amq.direct") + short("never") + table(None), (50, 51))
    c.ask(40, 30, b"\0\0" + short("e-none") + short("amq.direct") + short("k") + b"\0" + table(None), 404, "no exchange 'e-none'")
    c.call(1, 40, 40, b"\0\0" + short("amq.topic") + short("amq.direct") + short("never") + b"\0" + table(None), (40, 51))
    c.send("", q)
    c.ask(50, 40, b"\0\0" + short(q) + b"\2", 406, "queue 'q-errors' in vhost '/' not empty")
    c.consume(1, q, "t")
    c.ask(50, 40, b"\0\0" + short(q) + b"\1", 406, "queue 'q-errors' in vhost '/' in use")


def empty_name_means_the_last_declared(c):
    c.ask(60, 70, b"\0\0" + short("") + b"\1", 404, "no previously declared queue")
    c.ask(50, 40, b"\0\0" + short("") + b"\0", 404, "no previously declared queue")
    q = c.temp()
    check(q.startswith("amq.gen-") and len(q) >= 30, "server-named queue %r" % q)
    check(c.temp() != q, "the same name twice")
    check(c.temp({"x-name-prefix": "mine-"}).startswith("mine-"), "x-name-prefix")
    for prefix in ("amq.mine", "x" * 65, 5, ""):
        c.ask(50, 10, queue_declare("", {"x-name-prefix": prefix}), 406, "x-name-prefix")
    q = c.temp()
    c.ask(50, 10, queue_declare(q), 403, "reserved prefix")  # as RabbitMQ: only passively
    a = c.call(1, 50, 10, queue_declare(q, flags=1), (50, 11))
    check(a[1:1 + a[0]].decode() == q, "declared %s passively as another one" % q)
    c.exchange("e-last", "direct")
    c.call(1, 50, 20, b"\0\0" + short("") + short("e-last") + short("") + b"\0" + table(None), (50, 21))
    c.send("e-last", q)
    c.method(1, 60, 70, b"\0\0" + short("") + b"\1")
    check(c.next(Delivery).key == q, "the key of a binding with both names empty is not the queue's name")
    c.send("", q)
    a = c.call(1, 50, 30, b"\0\0" + short("") + b"\0", (50, 31))
    check(struct.unpack(">I", a)[0] == 1, "purge of ''")
    c.call(1, 50, 40, b"\0\0" + short("") + b"\0", (50, 41))
    c.ask(50, 10, queue_declare(q, flags=1), 404, "no queue")


def exclusive_queues_are_locked(c):
    other = connect()
    q = other.temp(name="q-exclusive")
    whose = r"cannot obtain exclusive access to locked queue 'q-exclusive' in vhost '/'"
    for cls, mid, args in ((50, 10, queue_declare(q)), (50, 10, queue_declare(q, flags=1)), (50, 10, queue_declare(q, flags=0)),
                           (60, 70, b"\0\0" + short(q) + b"\1"), (50, 30, b"\0\0" + short(q) + b"\0"),
                           (60, 20, b"\0\0" + short(q) + short("") + b"\0" + table(None)), (50, 40, b"\0\0" + short(q) + b"\0"),
                           (50, 20, b"\0\0" + short(q) + short("amq.direct") + short("k") + b"\0" + table(None))):
        c.ask(cls, mid, args, 405, whose)
    # What is not bound is not anybody's: unbinding it is fine, as with RabbitMQ.
    c.call(1, 50, 50, b"\0\0" + short(q) + short("amq.direct") + short("k") + table(None), (50, 51))
    other.ask(50, 10, queue_declare(q, flags=0), 405, "exclusive")  # the flag differs
    c.confirm(1)
    c.send("", q)  # publishing is no access
    c.next(Confirm)
    check(other.get(q) is not None, "not published")
    other.close()
    end = time.monotonic() + DEADLINE_S
    while True:  # its name is free soon after its connection
        c.method(1, 50, 10, queue_declare(q))
        c.kept += c.poll(DEADLINE_S)
        event = c.kept.pop(0)
        if isinstance(event, Method):
            break
        check(isinstance(event, Closed) and event.code == 405, "declare of the freed name: %s" % (event,))
        check(time.monotonic() < end, "the name of an exclusive queue is not freed")
        c.method(1, 20, 41)
        c.open(1)


def no_wait_variants(c):
    """None of them is answered: the first answer is that to the passive declare behind them."""
    n = 1 << 4
    c.method(1, 40, 10, exchange_declare("e-nowait", "direct", flags=4 | n))
    c.method(1, 40, 10, exchange_declare("e-nowait2", "fanout", flags=n))
    c.method(1, 50, 10, queue_declare("q-nowait", flags=4 | n))
    c.method(1, 50, 20, b"\0\0" + short("q-nowait") + short("e-nowait") + short("k") + b"\1" + table(None))
    c.method(1, 40, 30, b"\0\0" + short("e-nowait2") + short("e-nowait") + short("k") + b"\1" + table(None))
    c.method(1, 85, 10, b"\1")
    c.send("e-nowait", "k", b"1")
    c.method(1, 60, 20, b"\0\0" + short("q-nowait") + short("t") + bytes([2 | 8]) + table(None))
    d = c.next(Delivery)
    check((d.body, d.consumer) == (b"1", "t"), "delivery %s" % (d,))
    check(c.next(Confirm) == Confirm(1, False, True), "confirm")
    c.method(1, 60, 30, short("t") + b"\1")
    c.method(1, 50, 30, b"\0\0" + short("q-nowait") + b"\1")
    c.method(1, 40, 40, b"\0\0" + short("e-nowait2") + short("e-nowait") + short("k") + b"\1" + table(None))
    c.method(1, 40, 20, b"\0\0" + short("e-nowait2") + b"\2")
    c.method(1, 50, 40, b"\0\0" + short("q-nowait") + b"\4")
    c.ask(50, 10, queue_declare("q-nowait", flags=1), 404, "q-nowait")
    check(not c.kept, "answers to no-wait methods: %s" % c.kept)


def pipelined_declarations(c):
    """Changes that are sent without waiting take effect in order, and are answered in order."""
    c.open(2)
    owed = {1: [], 2: []}

    def tell(ch, cls, mid, args, answered=True):
        c.method(ch, cls, mid, args, flush=False)
        owed[ch] += [(cls, mid + 1)] * answered

    for i in range(300):
        ch, name = 1 + i % 2, "q-row-%d" % i
        tell(ch, 50, 10, queue_declare(name, flags=2))
        tell(ch, 50, 20, b"\0\0" + short("") + short("amq.direct") + short(name) + b"\0" + table(None))
        tell(ch, 50, 10, queue_declare(name, flags=2 | 1 << 4), answered=False)
        tell(ch, 50, 30, b"\0\0" + short(name) + b"\0")
        tell(ch, 50, 40, b"\0\0" + short(name) + b"\0")
    tell(1, 60, 10, struct.pack(">IHB", 0, 0, 0))
    c.flush()
    for _ in range(sum(map(len, owed.values()))):
        m = c.next(Method)
        check((m.cls, m.mid) == owed[m.channel].pop(0), "out of order: %s" % (m,))
    # An error comes behind the answers before it, and nothing behind it has taken effect.
    c.method(1, 50, 10, queue_declare("q-row-a", flags=2), flush=False)
    c.method(1, 50, 10, queue_declare("q-row-a", flags=0), flush=False)
    c.method(1, 50, 10, queue_declare("q-row-b", flags=2), flush=False)
    c.flush()
    came = []
    while len(came) < 2:
        came += c.poll(DEADLINE_S)
    check(isinstance(came[0], Method) and (came[0].cls, came[0].mid) == (50, 11), "first: %s" % came)
    check(isinstance(came[1], Closed) and came[1].code == 406 and len(came) == 2, "second: %s" % came)
    c.method(1, 20, 41)
    c.open(1)
    c.ask(50, 10, queue_declare("q-row-b", flags=1), 404, "no queue 'q-row-b'")
    # So it does when the connection ends by it.
    other = connect()
    other.method(1, 50, 10, queue_declare("q-row-a", flags=2), flush=False)
    other.method(1, 50, 11, b"", flush=False)
    other.flush()
    came = []
    while len(came) < 2:
        came += other.poll(DEADLINE_S)
    check(isinstance(came[0], Method) and (came[0].cls, came[0].mid) == (50, 11), "first: %s" % came)
    check(isinstance(came[1], Closed) and came[1].connection, "second: %s" % came)
    # What ends the channel or the connection is answered last.
    other = connect()
    other.method(1, 50, 40, b"\0\0" + short("q-row-a") + b"\0", flush=False)
    other.method(1, 20, 40, struct.pack(">H", 200) + short("") + b"\0\0\0\0", flush=False)
    other.method(0, 10, 50, struct.pack(">H", 200) + short("") + b"\0\0\0\0", flush=False)
    other.flush()
    for wanted in ((50, 41), (20, 41), (10, 51)):
        m = other.next(Method)
        check((m.cls, m.mid) == wanted, "expected %s, came %s" % (wanted, m))


# -- Basic

def consume_errors(c):
    q = c.temp()
    consume = b"\0\0" + short(q)
    c.consume(1, q, "t")
    c.ask(60, 20, consume + short("x") + b"\4" + table(None), 403, "queue '%s' in vhost '/' in exclusive use" % q)
    c.call(1, 60, 20, consume + short("x") + b"\4" + table(None), (60, 21))
    c.ask(60, 20, consume + short("y") + b"\0" + table(None), 403, "in exclusive use")
    c.ask(60, 20, consume + short("p") + b"\0" + table({"x-priority": "high"}), 406, "x-priority")
    c.call(1, 60, 30, short("never") + b"\0", (60, 31))
    c.consume(1, q, "t")
    c.ask(60, 20, consume + short("t") + b"\0" + table(None), 530, "attempt to reuse consumer tag 't'", connection=True)


def consumer_timeouts(c):
    """Of the queue, also behind one that is far away, and of the consumer."""
    c.open(2)
    slow, fast, plain = c.temp({"x-consumer-timeout": 3600000}), c.temp({"x-consumer-timeout": 300}), c.temp()
    for q in (slow, fast, plain):
        c.send("", q, b"m")
    c.consume(2, slow, "slow")
    c.next(Delivery)
    for q, args, ms in ((fast, None, 300), (plain, {"x-consumer-timeout": 200}, 200)):
        began = time.monotonic()
        c.method(1, 60, 20, b"\0\0" + short(q) + short("t") + b"\0" + table(args))   # who waits for its answer may miss the end
        answer = c.next(Method)
        check((answer.cls, answer.mid) == (60, 21), "%s" % (answer,))
        check(not c.next(Delivery).redelivered, "redelivered")
        c.refused(406, "delivery acknowledgement on channel 1 timed out. Timeout value used: %d ms" % ms)
        check(time.monotonic() - began >= ms / 1000, "early: %.3f s" % (time.monotonic() - began))
        check(c.get(q).redelivered, "the message is not back")
    c.sync(2)
    for bad in (-1, "5"):
        c.ask(60, 20, b"\0\0" + short(plain) + short("") + b"\0" + table({"x-consumer-timeout": bad}), 406, "x-consumer-timeout")


def settle_errors(c):
    c.ask(60, 80, struct.pack(">QB", 1, 0), 406, "unknown delivery tag 1")
    c.ask(60, 120, struct.pack(">QB", 7, 3), 406, "unknown delivery tag 7")
    c.ask(60, 90, struct.pack(">QB", 9, 0), 406, "unknown delivery tag 9")
    c.method(1, 60, 80, struct.pack(">QB", 0, 1))  # all of nothing
    c.sync()
    q = c.temp()
    c.send("", q)
    d = c.get(q, no_ack=False)
    c.ack(1, d.tag)
    c.ask(60, 80, struct.pack(">QB", d.tag, 0), 406, "unknown delivery tag 1")


def mode_errors(c):
    c.method(1, 85, 10, b"\0")
    c.next(Method)
    c.call(1, 85, 10, b"\0", (85, 11))  # again is fine
    c.ask(90, 10, b"", 406, "cannot switch from confirm to tx mode")
    c.call(1, 90, 10, b"", (90, 11))
    c.call(1, 90, 10, b"", (90, 11))
    c.ask(85, 10, b"\0", 406, "cannot switch from tx to confirm mode")
    c.ask(90, 20, b"", 406, "channel is not transactional")
    c.ask(90, 30, b"", 406, "channel is not transactional")
    c.ask(60, 10, struct.pack(">IHB", 10, 0, 0), 540, "prefetch_size", connection=True)


def recover(c):
    q = c.temp()
    c.send("", q, b"1")
    c.send("", q, b"2")
    c.consume(1, q, "t")
    check([c.next(Delivery).body for _ in range(2)] == [b"1", b"2"], "first deliveries")
    c.call(1, 60, 110, b"\1", (60, 111))
    again = [c.next(Delivery) for _ in range(2)]
    check([(d.body, d.redelivered, d.tag) for d in again] == [(b"1", True, 3), (b"2", True, 4)], "recovered: %s" % again)
    c.method(1, 60, 100, b"\1")  # recover-async
    again = [c.next(Delivery) for _ in range(2)]
    check([(d.body, d.redelivered, d.tag) for d in again] == [(b"1", True, 5), (b"2", True, 6)], "recover-async: %s" % again)
    c.method(1, 60, 80, struct.pack(">QB", 0, 1))
    c.sync()
    check(not c.kept, "something after recover-async: %s" % c.kept)
    other = connect()
    other.ask(60, 100, b"\0", 540, "requeue=false", connection=True)
    c.ask(60, 110, b"\0", 540, "requeue=false", connection=True)


def channel_flow(c):
    q = c.temp()
    c.consume(1, q, "t", no_ack=True)
    a = c.call(1, 20, 20, b"\0", (20, 21))
    check(a == b"\0", "flow-ok says %r" % a)
    for i in range(10):
        c.send("", q, b"%d" % i)
    c.sync()
    c.open(2)
    c.consume(2, q, "other", no_ack=True)  # another channel is not held up
    other = [c.next(Delivery) for _ in range(10)]
    check({d.consumer for d in other} == {"other"}, "deliveries while flow is off: %s" % other)
    c.call(2, 60, 30, short("other") + b"\0", (60, 31))
    c.send("", q, b"x")
    c.sync()
    check(not c.kept, "deliveries while flow is off: %s" % c.kept)
    check(c.call(1, 20, 20, b"\1", (20, 21)) == b"\1", "flow-ok")
    check(c.next(Delivery).body == b"x", "nothing when flow is on again")


def access_request_and_update_secret(c):
    a = c.call(1, 30, 10, short("/data") + b"\x1f", (30, 11))
    check(a == struct.pack(">H", 1), "ticket %r" % a)
    c.call(0, 10, 70, long(b"new secret") + short("renewed"), (10, 71))
    c.sync()


def prefetch_per_consumer_and_channel(c):
    """Both hold at once: no consumer has more than 3, all of the channel no more than 5."""
    q = c.temp()
    for i in range(20):
        c.send("", q, b"%d" % i)
    c.call(1, 60, 10, struct.pack(">IHB", 0, 3, 0), (60, 11))
    c.call(1, 60, 10, struct.pack(">IHB", 0, 5, 1), (60, 11))
    for tag in ("a", "b", "c"):
        c.consume(1, q, tag)
    out = {}

    def settle_down():
        while sum(len(v) for v in out.values()) < 5:
            d = c.next(Delivery)
            out.setdefault(d.consumer, []).append(d.tag)
        c.sync()
        c.kept += c.take_early() + c.poll(0.1)
        check(not c.kept, "over the limit: %s and %s" % (out, c.kept))
        check(max(len(v) for v in out.values()) <= 3, "over a consumer's limit: %s" % out)

    settle_down()
    for _ in range(15):
        tag = max(out, key=lambda t: len(out[t]))
        c.ack(1, out[tag].pop(0))
        if sum(len(v) for v in out.values()) == 4 and _ < 15:
            settle_down()
    c.call(1, 60, 10, struct.pack(">IHB", 0, 0, 1), (60, 11))  # no limit of the channel: that of each consumer stays


def returns_come_before_confirms(c):
    c.confirm(1)
    for i in range(3):
        c.send("", "q-nowhere", b"%d" % i, publish_flags=1)
    seen = []
    while sum(e[1] for e in seen if e[0] == "ok") < 3:
        c.kept += c.take_early() + c.poll(DEADLINE_S)
        for e in c.kept:
            if isinstance(e, Returned):
                check(e.code == 312, "returned with %d" % e.code)
                seen.append(("returned", e.body))
            elif isinstance(e, Confirm):
                check(e.ok, "nacked")
                done = sum(s[1] for s in seen if s[0] == "ok")
                returned = sum(1 for s in seen if s[0] == "returned")
                check(returned >= e.tag, "confirm %d before its return" % e.tag)
                seen.append(("ok", e.tag - done if e.multiple else 1))
        c.kept.clear()
    check([s[1] for s in seen if s[0] == "returned"] == [b"0", b"1", b"2"], "returned: %s" % seen)


def reject_publish_nacks_and_no_multiple_spans_a_nack(c):
    """Clients read a cumulative confirm as "all from 1": after a nack each number is told of by itself."""
    full = c.temp({"x-max-length": 1, "x-overflow": "reject-publish"})
    free = c.temp()
    c.confirm(1)
    c.publish(1, "", full, b"1")
    c.publish(1, "", full, b"2", flush=True)
    told = {}
    while len(told) < 2:
        e = c.next(Confirm)
        for tag in range(1 if e.multiple else e.tag, e.tag + 1):
            told.setdefault(tag, e.ok)
    check(told == {1: True, 2: False}, "confirms %s" % told)
    for _ in range(2000):
        c.publish(1, "", free, b"x")
    c.flush()
    for tag in range(3, 2003):
        e = c.next(Confirm)
        check(e.ok and not e.multiple and e.tag == tag, "confirm %s, expected that of %d alone" % (e, tag))


def direct_reply_to(c):
    for name in ("amq.rabbitmq.reply-to", "amq.direct.reply-to"):
        client, server = connect(), connect()
        q = server.temp()
        client.send("", q, flags=1 << 9, properties=short(name))
        client.refused(406, "fast reply consumer does not exist")
        client.ask(60, 20, b"\0\0" + short(name) + short("") + b"\0" + table(None), 406, "reply consumer cannot acknowledge")
        client.consume(1, name, "r", no_ack=True)
        client.send("", q, b"ask", flags=1 << 9, properties=short(name))
        client.sync()
        address = reply_to_of_the_next(server, q)
        check(address.startswith(name + "."), "reply-to is %r" % address)
        server.send("", address, b"answer", publish_flags=1)
        d = client.next(Delivery)
        check((d.body, d.consumer, d.exchange) == (b"answer", "r", ""), "reply %s" % (d,))
        client.call(1, 60, 30, short("r") + b"\0", (60, 31))
        server.send("", address, b"late", publish_flags=1)
        returned = server.next(Returned)
        check((returned.code, returned.body) == (312, b"late"), "late reply: %s" % (returned,))
        client.close()
        server.close()


def reply_to_of_the_next(server, queue):
    """The wire client does not keep reply-to: it is looked for behind the property flags."""
    seen, whole = [], server._complete

    def complete(ch):
        seen.append(server.content[ch][1][1])
        return whole(ch)
    server._complete = complete
    server.consume(1, queue, "s", no_ack=True)
    server.next(Delivery)
    server._complete = whole
    header = seen[0]
    flags = struct.unpack_from(">H", header, 12)[0]
    check(flags & 1 << 9, "no reply-to in the request")
    o = 14
    for bit in (15, 14):
        if flags & 1 << bit:
            o += 1 + header[o]
    if flags & 1 << 13:
        o += 4 + struct.unpack_from(">I", header, o)[0]
    o += bin(flags >> 11 & 3).count("1")
    if flags & 1 << 10:
        o += 1 + header[o]
    return header[o + 1:o + 1 + header[o]].decode()


def sender_selected_keys(c):
    a, b, d = c.temp(), c.temp(), c.temp()
    c.send_headers("", a, {"CC": [b, a], "BCC": [d], "x": "y"}, b"m")
    for q in (a, b, d):
        m = c.get(q)
        check(m is not None and m.key == a, "%s got %s" % (q, m))
        check(m.headers == {"CC": [b, a], "x": "y"}, "headers %s" % m.headers)
        check(c.get(q) is None, "twice in %s" % q)


def who_reads_a_close_ok_may_take_the_place(c):
    """Of an exclusive consumer, by another connection: queues on other shards know by then that it is gone."""
    queues = ["q-place-%d" % i for i in range(8)]   # on several shards
    for q in queues:
        c.call(1, 50, 10, queue_declare(q, flags=0), (50, 11))
    for round_number in range(40):
        client, other = connect(), connect()
        for q in queues:
            client.call(1, 60, 20, b"\0\0" + short(q) + short("") + b"\4" + table(None), (60, 21))
        if round_number % 2:
            client.call(1, 20, 40, struct.pack(">H", 200) + short("") + b"\0\0\0\0", (20, 41))
        else:
            client.call(0, 10, 50, struct.pack(">H", 200) + short("") + b"\0\0\0\0", (10, 51))
        for q in reversed(queues):
            other.call(1, 60, 20, b"\0\0" + short(q) + short("") + b"\4" + table(None), (60, 21))
        client.close()
        other.close()
    for q in queues:
        c.call(1, 50, 40, b"\0\0" + short(q) + b"\0", (50, 41))


CHECKS = (
    ("errors of exchange.declare and delete", exchange_errors),
    ("errors of basic.publish", publish_errors),
    ("errors of queue.declare, bind, purge and delete", queue_errors),
    ("the empty name is the queue declared last", empty_name_means_the_last_declared),
    ("an exclusive queue is locked to others with 405", exclusive_queues_are_locked),
    ("no-wait is not answered", no_wait_variants),
    ("errors of basic.consume", consume_errors),
    ("the acknowledgement timeout of a queue and of a consumer", consumer_timeouts),
    ("errors of ack, nack and reject", settle_errors),
    ("errors of confirm, tx and qos", mode_errors),
    ("recover and recover-async", recover),
    ("channel.flow stops and resumes the deliveries of a channel", channel_flow),
    ("access.request is a no-op, update-secret is accepted", access_request_and_update_secret),
    ("prefetch of the consumer and of the channel hold together", prefetch_per_consumer_and_channel),
    ("a return comes before its confirm", returns_come_before_confirms),
    ("reject-publish nacks; no later confirm spans the nack", reject_publish_nacks_and_no_multiple_spans_a_nack),
    ("direct reply-to by both names", direct_reply_to),
    ("declarations in a row", pipelined_declarations),
    ("CC and BCC", sender_selected_keys),
    ("who reads a close-ok may take the place of an exclusive consumer", who_reads_a_close_ok_may_take_the_place),
)


def main():
    global PORT
    PORT = urllib.parse.urlparse(sys.argv[1]).port or 5672
    report, only = Report("protocol"), sys.argv[2:]

    def with_client(function):
        def run():
            client = connect()
            try:
                function(client)
            finally:
                client.close()
        return run

    report.run([(name, with_client(function)) for name, function in CHECKS if not only or function.__name__ in only])
    report.end()


main()
