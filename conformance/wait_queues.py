#!/usr/bin/python3
"""Retries as frameworks build them from wait queues, by hand with pika. Usage: wait_queues.py AMQP_URL. A line "PASS|FAIL
wait-queues: NAME" for each check.

Three topologies that are in use: buckets by delay that dead-letter back through an exchange, reject-publish everywhere;
one wait queue per queue, attempts counted from x-death; rungs by delay behind a named exchange, attempts on a header of
the worker's own. Every wait is for an event with a deadline; delays are lower bounds.
"""
import os
import sys
import time

import pika
import pika.exceptions

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from report import Fail, Report, check  # noqa: E402

DEADLINE_S = 60
BUCKETS_MS = (60, 120, 240)   # what a policy "first 60, doubled, three retries" makes
WAIT_MS = 80
PERSISTENT = 2


class Worker:
    """A consumer with manual acknowledgements, prefetch 1 and a confirming channel, as those frameworks have it."""

    def __init__(self, connection, queue):
        self.connection, self.queue, self.inbox = connection, queue, []
        self.channel = connection.channel()
        self.channel.confirm_delivery()
        self.channel.basic_qos(prefetch_count=1)
        self.tag = self.channel.basic_consume(queue, lambda _, m, p, body: self.inbox.append((m, p, body, time.monotonic())))

    def next(self):
        deadline = time.monotonic() + DEADLINE_S
        while not self.inbox:
            check(time.monotonic() < deadline, "%s: nothing within %d s" % (self.queue, DEADLINE_S))
            self.connection.process_data_events(time_limit=0.2)
        return self.inbox.pop(0)

    def hand_over(self, delivery, exchange, key, headers):
        """Publishes the copy, mandatory and persistent; acknowledges the original only once that is confirmed."""
        method, properties, body, _ = delivery
        properties.headers, properties.delivery_mode = headers, PERSISTENT
        handed_at = time.monotonic()
        self.channel.basic_publish(exchange, key, body, properties, mandatory=True)
        self.channel.basic_ack(method.delivery_tag)
        return handed_at


class Names:
    """Durable things with names of this run's own, deleted at its end."""

    def __init__(self, connection, prefix):
        self.channel, self.prefix = connection.channel(), "conformance.%s.%d." % (prefix, os.getpid())
        self.connection, self.made = connection, []

    def queue(self, name, **arguments):
        full = self.prefix + name
        self.channel.queue_declare(full, durable=True, arguments={k.replace("_", "-"): v for k, v in arguments.items()})
        self.made.append(("queue", full))
        return full

    def exchange(self, name):
        full = self.prefix + name
        self.channel.exchange_declare(full, "direct", durable=True)
        self.made.append(("exchange", full))
        return full

    def __enter__(self):
        return self

    def __exit__(self, *_):
        channel = self.connection.channel()
        for kind, name in self.made:
            (channel.queue_delete if kind == "queue" else channel.exchange_delete)(name)


def send(channel, queue, body, headers=None):
    channel.confirm_delivery()
    channel.basic_publish("", queue, body, pika.BasicProperties(headers=headers, delivery_mode=PERSISTENT, type="t"),
                          mandatory=True)


def ready(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def waited(handed_at, delivery, ms):
    took = (delivery[3] - handed_at) * 1000
    check(took >= ms, "waited %.1f ms, not %d" % (took, ms))


def buckets(connection):
    """orders -> orders.retry -> orders.created.retry.60ms, .120ms, .240ms -> orders -> ... -> orders.dlx -> orders.created.dlq"""
    with Names(connection, "buckets") as names:
        orders, retry, dlx = (names.exchange(n) for n in ("orders", "orders.retry", "orders.dlx"))
        full = {"x_overflow": "reject-publish", "x_max_length": 1000}
        created, dead = names.queue("orders.created", **full), names.queue("orders.created.dlq", **full)
        names.channel.queue_bind(created, orders, "created")
        names.channel.queue_bind(dead, dlx, "created")
        for ms in BUCKETS_MS:
            bucket = names.queue("orders.created.retry.%dms" % ms, x_message_ttl=ms, x_dead_letter_exchange=orders,
                                 x_dead_letter_routing_key="created", **full)
            names.channel.queue_bind(bucket, retry, "created.%d" % ms)
        names.channel.confirm_delivery()
        names.channel.basic_publish(orders, "created", b"order", pika.BasicProperties(message_id="id-1"), mandatory=True)
        worker, handed_at = Worker(connection, created), None
        for attempt in range(len(BUCKETS_MS) + 1):
            delivery = worker.next()
            headers = delivery[1].headers or {}
            check(headers.get("x-retry-count", 0) == attempt, "x-retry-count %r at attempt %d" % (headers, attempt))
            check(delivery[1].message_id == "id-1", "message id %r" % delivery[1].message_id)
            if attempt:
                waited(handed_at, delivery, BUCKETS_MS[attempt - 1])
                deaths = headers["x-death"]
                check(len(deaths) == attempt, "%d deaths at attempt %d" % (len(deaths), attempt))
                check(deaths[0]["queue"].endswith(".%dms" % BUCKETS_MS[attempt - 1]) and deaths[0]["reason"] == "expired"
                      and deaths[0]["count"] == 1, "newest death %r" % deaths[0])
            if attempt < len(BUCKETS_MS):
                headers["x-retry-count"] = attempt + 1
                handed_at = worker.hand_over(delivery, retry, "created.%d" % BUCKETS_MS[attempt], headers)
            else:
                worker.hand_over(delivery, dlx, "created", headers)
        check(worker.channel.queue_declare(created, passive=True).method.message_count == 0, "something is left")
        _, properties, body = names.channel.basic_get(dead, auto_ack=True)
        check(body == b"order" and properties.headers["x-retry-count"] == 3 and len(properties.headers["x-death"]) == 3,
              "dead letter %r" % (properties and properties.headers))


def full_bucket(connection):
    """A bucket that is full answers with nack: the original is not acknowledged, goes back and comes again."""
    with Names(connection, "full") as names:
        created = names.queue("created")
        bucket = names.queue("created.retry", x_message_ttl=3600000, x_overflow="reject-publish", x_max_length=1,
                             x_dead_letter_exchange="", x_dead_letter_routing_key=created)
        send(names.channel, bucket, b"in the way")
        send(names.channel, created, b"order")
        worker = Worker(connection, created)
        delivery = worker.next()
        try:
            worker.hand_over(delivery, "", bucket, {"x-retry-count": 1})
            raise Fail("a full bucket took the message")
        except pika.exceptions.NackError:
            worker.channel.basic_nack(delivery[0].delivery_tag, requeue=True)
        again = worker.next()
        check(again[0].redelivered and again[2] == b"order", "came back as %r" % (again,))
        names.channel.queue_purge(bucket)
        worker.hand_over(again, "", bucket, {"x-retry-count": 1})
        check(ready(names.channel, bucket) == 1, "the bucket is empty")


def missing_bucket(connection):
    """A mandatory copy that reaches no queue comes back before its confirm, so the original is kept."""
    with Names(connection, "missing") as names:
        created, retry = names.queue("created"), names.exchange("retry")
        send(names.channel, created, b"order")
        worker = Worker(connection, created)
        delivery = worker.next()
        for exchange, key in (("", names.prefix + "no.such.queue"), (retry, "no.such.key")):
            try:
                worker.hand_over(delivery, exchange, key, {})
                raise Fail("it was taken for delivered")
            except pika.exceptions.UnroutableError as error:
                check(error.messages[0].method.reply_code == 312, "reply code %d" % error.messages[0].method.reply_code)
        worker.channel.basic_nack(delivery[0].delivery_tag, requeue=True)
        check(worker.next()[0].redelivered, "the original did not come back")


def attempts(headers, wait):
    """As the workers read it: the retry cycles that the broker counted, and one."""
    for death in (headers or {}).get("x-death") or []:
        if death["queue"] == wait and death["reason"] == "expired":
            return death["count"] + 1
    return 1


def x_death_counts(connection):
    """queue -> queue.retry (TTL) -> queue, the attempts read from x-death; over 3 the message is parked."""
    with Names(connection, "xdeath") as names:
        queue, parked = names.queue("received"), names.queue("parked")
        wait = names.queue("received.retry", x_message_ttl=WAIT_MS, x_dead_letter_exchange="",
                           x_dead_letter_routing_key=queue)
        send(names.channel, queue, b"poison", {"trace": "kept"})
        handed_at = None
        for attempt in (1, 2, 3):
            worker = Worker(connection, queue)   # each time another: nothing is kept in the worker
            delivery = worker.next()
            headers = delivery[1].headers
            check(attempts(headers, wait) == attempt, "attempt %d: %r" % (attempt, headers))
            check(headers["trace"] == "kept" and delivery[1].type == "t", "properties %r" % delivery[1])
            if attempt > 1:
                waited(handed_at, delivery, WAIT_MS)
                death = headers["x-death"][0]
                check(len(headers["x-death"]) == 1 and death["count"] == attempt - 1 and death["exchange"] == ""
                      and death["routing-keys"] == [wait] and "time" in death, "x-death %r" % headers["x-death"])
                check(headers["x-first-death-queue"] == wait and headers["x-first-death-reason"] == "expired"
                      and headers["x-first-death-exchange"] == "", "first death %r" % headers)
            handed_at = worker.hand_over(delivery, "", wait if attempt < 3 else parked, headers)
            worker.channel.close()
        method, properties, body = names.channel.basic_get(parked, auto_ack=True)
        check(method and body == b"poison" and attempts(properties.headers, wait) == 3, "parked: %r" % properties)


def changed_ttl(connection):
    """A worker that comes with another delay is told with 406 which argument it is, and what was is left as it was."""
    with Names(connection, "ttl") as names:
        queue = names.queue("received")
        wait = names.queue("received.retry", x_message_ttl=3600000, x_dead_letter_exchange="", x_dead_letter_routing_key=queue)
        send(names.channel, wait, b"waits")
        for arguments, named in (
                ({"x-message-ttl": 3600001, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}, "x-message-ttl"),
                ({"x-message-ttl": 3600000, "x-dead-letter-exchange": ""}, "x-dead-letter-routing-key"),
                ({"x-message-ttl": 3600000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue,
                  "x-max-length": 5}, "x-max-length")):
            channel = connection.channel()
            try:
                channel.queue_declare(wait, durable=True, arguments=arguments)
                raise Fail("accepted: %r" % arguments)
            except pika.exceptions.ChannelClosedByBroker as error:
                check(error.reply_code == 406 and "inequivalent arg '%s'" % named in error.reply_text,
                      "%d %s" % (error.reply_code, error.reply_text))
        check(ready(connection.channel(), wait) == 1, "the message is gone")


def rungs(connection):
    """A named exchange brings expired messages home by a binding; two delays side by side do not wait for one another."""
    with Names(connection, "rungs") as names:
        queue, home = names.queue("orders"), names.exchange("retry")
        names.channel.queue_bind(queue, home, queue)
        rung = {ms: names.queue("orders.retry.%dms" % ms, x_message_ttl=ms, x_dead_letter_exchange=home,
                                x_dead_letter_routing_key=queue) for ms in (3600000, 100)}
        # Declared by a second service with the same three arguments: no error.
        names.queue("orders.retry.100ms", x_message_ttl=100, x_dead_letter_exchange=home, x_dead_letter_routing_key=queue)
        send(names.channel, queue, b"long")
        send(names.channel, queue, b"short")
        worker = Worker(connection, queue)
        worker.hand_over(worker.next(), "", rung[3600000], {"x-acemq-attempt": 2})
        handed_at = worker.hand_over(worker.next(), "", rung[100], {"x-acemq-attempt": 2})
        back = worker.next()
        waited(handed_at, back, 100)
        check(back[2] == b"short" and back[1].headers["x-acemq-attempt"] == 2, "came back: %r" % (back,))
        check(not back[0].redelivered, "a message that came by dead-lettering is none that was delivered before")
        check(back[0].exchange == home and back[0].routing_key == queue, "by %r" % back[0])
        check(ready(names.channel, rung[3600000]) == 1, "the long one did not stay")
        # What was given up on goes to the dead letters with its reason, and can be replayed with a fresh count.
        dead = names.queue("orders.dead")
        worker.hand_over(back, "", dead, {"x-acemq-attempt": 2, "x-acemq-error": "exhausted 2 attempts"})
        _, properties, body = names.channel.basic_get(dead)
        check(properties.headers["x-acemq-error"] == "exhausted 2 attempts", "%r" % properties.headers)


def survives_a_lost_worker(connection):
    """A worker that dies between its copy and its acknowledgement: the original comes again, the copy too (at least once)."""
    with Names(connection, "lost") as names:
        queue = names.queue("received")
        wait = names.queue("received.retry", x_message_ttl=WAIT_MS, x_dead_letter_exchange="",
                           x_dead_letter_routing_key=queue)
        send(names.channel, queue, b"order")
        worker = Worker(connection, queue)
        delivery = worker.next()
        worker.channel.basic_publish("", wait, delivery[2], delivery[1], mandatory=True)
        worker.channel.close()
        second = Worker(connection, queue)
        seen = []
        for _ in range(2):
            got = second.next()
            seen.append((attempts(got[1].headers, wait), got[0].redelivered))
            second.channel.basic_ack(got[0].delivery_tag)
        check(sorted(seen) == [(1, True), (2, False)], "seen %r" % seen)


CHECKS = (
    ("buckets by delay: each waits its time, attempts on a header, x-death names each bucket", buckets),
    ("a full bucket with reject-publish answers with nack, the original comes again", full_bucket),
    ("a mandatory copy without a queue is returned before its confirm", missing_bucket),
    ("one wait queue: x-death counts the attempts, whoever consumes", x_death_counts),
    ("another TTL for a wait queue is 406 and names the argument", changed_ttl),
    ("rungs behind a named exchange: a long delay does not hold up a short one", rungs),
    ("a worker lost between copy and acknowledgement: both come", survives_a_lost_worker),
)


def main():
    report = Report("wait-queues")
    connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
    report.run(CHECKS, connection)
    connection.close()
    report.end()


main()
