#!/usr/bin/python3
"""TarryMQ with librabbitmq's command-line tools (Debian's amqp-tools). Usage: librabbitmq_tools.py AMQP_URL.

What the tools can't do (declare with arguments, delete what a check has made) is done with pika. A line
"PASS|FAIL librabbitmq: name" for each check. Every wait has a deadline.
"""
import subprocess
import sys

import pika

URL = sys.argv[1]
DEADLINE_S = 60


class Fail(Exception):
    pass


def check(condition, why):
    if not condition:
        raise Fail(why)


def tool(name, *arguments, stdin=b"", expect=0):
    done = subprocess.run([name, "--url", URL, *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=DEADLINE_S)
    if expect is not None:
        check(done.returncode == expect, "%s ended with %d: %s" % (name, done.returncode, done.stderr.decode()[:200]))
    return done


def publish_and_get(channel, queue):
    tool("amqp-declare-queue", "-d", "-q", queue)
    tool("amqp-publish", "-r", queue, "-p", "-C", "text/plain", "-H", "kind: test", "-b", "hello")
    got = tool("amqp-get", "-q", queue)
    check(got.stdout == b"hello", "got %r" % got.stdout)
    # 2: "there was none", by the tool's manual page
    tool("amqp-get", "-q", queue, expect=2)


def publish_lines_and_consume(channel, queue):
    channel.queue_declare(queue, durable=True)
    lines = b"".join(b"line %d\n" % i for i in range(50))
    tool("amqp-publish", "-r", queue, "-l", stdin=lines)
    consumed = tool("amqp-consume", "-q", queue, "-c", "50", "-p", "10", "cat")
    check(consumed.stdout == lines, "got %r" % consumed.stdout[:200])
    left = channel.queue_declare(queue, durable=True, passive=True).method.message_count
    check(left == 0, "%d messages were not acknowledged" % left)


def one_mebibyte(channel, queue):
    channel.queue_declare(queue, durable=True)
    body = bytes((i * 31 + (i >> 8)) & 0xFF for i in range(1 << 20))
    tool("amqp-publish", "-r", queue, "-p", stdin=body)
    got = tool("amqp-get", "-q", queue)
    check(got.stdout == body, "the body has changed (%d bytes)" % len(got.stdout))


def failing_command_ends_in_the_dead_letter(channel, queue):
    """The tool leaves a delivery unacknowledged when its command fails; its connection ends: redelivered at once,
    counted, and over the limit a dead letter."""
    dead = queue + ".dead"
    channel.queue_declare(dead, durable=True)
    channel.queue_declare(queue, durable=True, arguments={
        "x-delayed-retry-min": 3600000, "x-delivery-limit": 2,
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    try:
        tool("amqp-publish", "-r", queue, "-p", "-b", "poison")
        for _ in range(3):
            tool("amqp-consume", "-q", queue, "-c", "1", "false", expect=None)
        found = []
        channel.basic_consume(dead, lambda _, m, p, body: found.append((p, body)), auto_ack=True)
        for _ in range(DEADLINE_S * 5):
            if found:
                break
            channel.connection.process_data_events(time_limit=0.2)
        check(found, "no dead letter")
        death = found[0][0].headers["x-death"][0]
        check(found[0][1] == b"poison" and death["reason"] == "delivery_limit", "x-death %r" % death)
    finally:
        channel.queue_delete(dead)


def unknown_queue_is_an_error(channel, queue):
    done = tool("amqp-get", "-q", queue + ".missing", expect=None)
    check(done.returncode not in (0, 2), "status %d" % done.returncode)
    check(b"404" in done.stderr or b"NOT_FOUND" in done.stderr, "said %r" % done.stderr[:200])


CHECKS = (
    ("declare, publish persistent with properties, get", publish_and_get),
    ("50 published lines are consumed in order and acknowledged", publish_lines_and_consume),
    ("a body of 1 MiB goes through unchanged", one_mebibyte),
    ("a command that always fails ends in the dead letter", failing_command_ends_in_the_dead_letter),
    ("a missing queue is an error with its code", unknown_queue_is_an_error),
)


def main():
    failed = 0
    connection = pika.BlockingConnection(pika.URLParameters(URL))
    for number, (name, run) in enumerate(CHECKS):
        channel = connection.channel()
        queue = "conformance.librabbitmq.%d" % number
        try:
            run(channel, queue)
            print("PASS librabbitmq: %s" % name, flush=True)
        except Exception as error:  # whatever it is, it is this check's verdict
            failed += 1
            print("FAIL librabbitmq: %s: %s %s" % (name, type(error).__name__, error), flush=True)
        if connection.is_closed:
            connection = pika.BlockingConnection(pika.URLParameters(URL))
        connection.channel().queue_delete(queue)
    connection.close()
    return 1 if failed else 0


sys.exit(main())
