#!/usr/bin/python3
"""TarryMQ with Debian's pika. Usage: pika_client.py AMQP_URL. A line "PASS|FAIL pika: name" for each check.

Nothing waits for a time: every wait is for an event, with a deadline.
"""
import sys
import time

import pika
import pika.exceptions

DEADLINE_S = 60
EXAMPLE_DELAYS_MS = (50, 100, 200, 400, 800)


class Fail(Exception):
    pass


def check(condition, why):
    if not condition:
        raise Fail(why)


def declare(channel, **arguments):
    arguments = {k.replace("_", "-"): v for k, v in arguments.items()}
    return channel.queue_declare("", exclusive=True, arguments=arguments).method.queue


class Inbox:
    """Deliveries of one consumer, to be taken one by one."""

    def __init__(self, channel, queue):
        self.channel, self.ready = channel, []
        self.tag = channel.basic_consume(queue, lambda _, m, p, body: self.ready.append((m, p, body, time.monotonic())))

    def next(self, what):
        deadline = time.monotonic() + DEADLINE_S
        while not self.ready:
            check(time.monotonic() < deadline, "%s: nothing within %d s" % (what, DEADLINE_S))
            self.channel.connection.process_data_events(time_limit=0.2)
        return self.ready.pop(0)


def confirms_consume_ack(connection):
    channel = connection.channel()
    channel.confirm_delivery()
    queue = declare(channel)
    for i in range(100):
        channel.basic_publish("", queue, b"m%d" % i, pika.BasicProperties(delivery_mode=2))
    channel.basic_qos(prefetch_count=10)
    inbox = Inbox(channel, queue)
    for i in range(100):
        method, _, body, _ = inbox.next("delivery %d" % i)
        check(body == b"m%d" % i, "expected m%d, got %r" % (i, body))
        channel.basic_ack(method.delivery_tag)
    channel.basic_cancel(inbox.tag)
    left = channel.queue_declare(queue, passive=True).method.message_count
    check(left == 0, "%d messages are left" % left)


def nack_on_a_plain_queue(connection):
    channel = connection.channel()
    queue = declare(channel)
    channel.basic_publish("", queue, b"m")
    inbox = Inbox(channel, queue)
    channel.basic_nack(inbox.next("first delivery")[0].delivery_tag, requeue=True)
    method = inbox.next("redelivery")[0]
    check(method.redelivered, "not marked as redelivered")
    channel.basic_ack(method.delivery_tag)


def the_example(connection):
    channel = connection.channel()
    dead = declare(channel)
    queue = declare(channel, x_delivery_limit=5, x_delayed_retry_min=50, x_delayed_retry_multiplier=2,
                    x_delayed_retry_max=3000, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.basic_publish("", queue, b"poison")
    inbox, graves = Inbox(channel, queue), Inbox(channel, dead)
    rejected_at = None
    for n in range(6):
        method, properties, _, at = inbox.next("delivery %d" % (n + 1))
        count = (properties.headers or {}).get("x-delivery-count", 0)
        check(count == n, "x-delivery-count of delivery %d: %r" % (n + 1, count))
        if n:
            delay = (at - rejected_at) * 1000
            check(delay >= EXAMPLE_DELAYS_MS[n - 1], "delay %d was %.1f ms, not %d" % (n, delay, EXAMPLE_DELAYS_MS[n - 1]))
        rejected_at = time.monotonic()
        channel.basic_reject(method.delivery_tag, requeue=True)
    method, properties, body, _ = graves.next("dead letter")
    death = properties.headers["x-death"][0]
    check(body == b"poison" and death["reason"] == "delivery_limit" and death["queue"] == queue, "x-death %r" % death)
    channel.basic_ack(method.delivery_tag)


def dead_letter_at_once(connection):
    channel = connection.channel()
    dead = declare(channel)
    queue = declare(channel, x_delayed_retry_min=3600000, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.basic_publish("", queue, b"m")
    inbox, graves = Inbox(channel, queue), Inbox(channel, dead)
    channel.basic_nack(inbox.next("delivery")[0].delivery_tag, requeue=False)
    death = graves.next("dead letter")[1].headers["x-death"][0]
    check(death["reason"] == "rejected", "reason %s" % death["reason"])


def mandatory_return(connection):
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        channel.basic_publish("", "no.such.queue.anywhere", b"back", mandatory=True)
        raise Fail("no return")
    except pika.exceptions.UnroutableError as error:
        returned = error.messages[0]
        check(returned.method.reply_code == 312, "reply code %d" % returned.method.reply_code)
        check(returned.body == b"back", "another body came back")


def one_mebibyte(connection):
    channel = connection.channel()
    channel.confirm_delivery()
    queue = declare(channel)
    body = bytes((i * 31 + (i >> 8)) & 0xFF for i in range(1 << 20))
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))
    method, _, got, _ = Inbox(channel, queue).next("delivery")
    check(got == body, "the body has changed")
    channel.basic_ack(method.delivery_tag)


def channel_error(connection):
    channel = connection.channel()
    try:
        channel.queue_declare("no.such.queue.anywhere", passive=True)
        raise Fail("no error")
    except pika.exceptions.ChannelClosedByBroker as error:
        check(error.reply_code == 404, "code %d" % error.reply_code)
    connection.channel().close()


CHECKS = (
    ("publish with confirms, consume, ack", confirms_consume_ack),
    ("nack with requeue on a plain queue redelivers at once", nack_on_a_plain_queue),
    ("the example: limit 5, doubled delays, then the dead letter", the_example),
    ("nack without requeue dead-letters at once", dead_letter_at_once),
    ("a mandatory message without a queue is returned", mandatory_return),
    ("a body of 1 MiB goes through unchanged", one_mebibyte),
    ("an error closes the channel with its code, and the connection goes on", channel_error),
)


def main():
    failed = 0
    for name, run in CHECKS:
        try:
            connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
            run(connection)
            connection.close()
            print("PASS pika: %s" % name, flush=True)
        except Exception as error:  # whatever it is, it is this check's verdict
            failed += 1
            print("FAIL pika: %s: %s %s" % (name, type(error).__name__, error), flush=True)
    return 1 if failed else 0


sys.exit(main())
