#!/usr/bin/python3
"""What a consumer and an operator can say of a retry, with pika, curl's requests and kill -9 (retry-spec 35, 36, 41).

Starts brokers of its own ($TARRYMQ). A line "PASS|FAIL own-word: name" for each check. The examples of the README that
are marked for this script are what is run here. Every wait is for an event, with a deadline.
"""
import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pika
import pika.exceptions

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import ROOT, Broker, scratch  # noqa: E402

DEADLINE_S = 60
HOUR_MS = 3600000


class Fail(Exception):
    pass


def check(condition, why):
    if not condition:
        raise Fail(why)


def example(name):
    """The README's block behind `<!-- own-word: name -->`."""
    with open(os.path.join(ROOT, "README.md")) as page:
        found = re.search(r"<!-- own-word: %s -->\n+```\w+\n(.*?)```" % re.escape(name), page.read(), re.S)
    check(found, "the README has no example %s" % name)
    return found.group(1)


@contextlib.contextmanager
def connect(broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        yield connection
    finally:
        try:
            connection.close()
        except pika.exceptions.AMQPError:
            pass   # the broker was killed meanwhile


def http(broker, method, path, body=None):
    """Status and JSON."""
    request = urllib.request.Request("http://127.0.0.1:%d/api%s" % (broker.http, path), method=method,
                                     data=None if body is None else json.dumps(body).encode())
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else None


def until(what, holds):
    deadline = time.monotonic() + DEADLINE_S
    while True:
        value = holds()
        if value:
            return value
        check(time.monotonic() < deadline, "%s: not within %d s" % (what, DEADLINE_S))
        time.sleep(0.02)


def figures(broker, queue):
    return http(broker, "GET", "/queues/%%2F/%s" % queue)[1]


def declare(channel, name, **arguments):
    channel.queue_declare(name, durable=True, arguments={k.replace("_", "-"): v for k, v in arguments.items()})


def publish(channel, queue, body):
    channel.basic_publish("", queue, body.encode(), pika.BasicProperties(delivery_mode=2))


def say(channel, tag, **headers):
    channel.basic_publish("amq.retry", str(tag), b"", pika.BasicProperties(
        headers={"x-retry-" + k: v for k, v in headers.items()}))


def get(channel, queue):
    """Polls until there is a message: method, headers, body."""
    def one():
        method, properties, body = channel.basic_get(queue)
        return method and (method, properties.headers or {}, body.decode())
    return until("a message in " + queue, one)


def drain(channel, queue, count):
    """`count` messages, acknowledged: [(headers, body)]; no more must be there."""
    out = []
    while len(out) < count:
        method, headers, body = get(channel, queue)
        channel.basic_ack(method.delivery_tag)
        out.append((headers, body))
    check(channel.basic_get(queue)[0] is None, "%s: more than %d messages" % (queue, count))
    return out


def a_delay_for_this_message(broker):
    with connect(broker) as connection:
        channel = connection.channel()
        declare(channel, "delay", x_delayed_retry_min=HOUR_MS)
        publish(channel, "delay", "m")
        method, headers, _ = get(channel, "delay")
        check(not headers, "headers of a first delivery: %r" % headers)
        said = time.monotonic()
        say(channel, method.delivery_tag, delay=300, error="no connection to the bank")
        method, headers, body = get(channel, "delay")
        waited_ms = (time.monotonic() - said) * 1000
        check(waited_ms >= 300, "came back after %.1f ms, not 300" % waited_ms)
        check(body == "m" and method.redelivered, "another message")
        check(headers == {"x-delivery-count": 1, "x-last-error": "no connection to the bank"}, "headers %r" % headers)
        channel.basic_ack(method.delivery_tag)


def a_permanent_failure(broker):
    with connect(broker) as connection:
        channel = connection.channel()
        declare(channel, "permanent", x_delayed_retry_min=HOUR_MS, x_dead_letter_exchange="",
                x_dead_letter_routing_key="graves")
        declare(channel, "graves")
        publish(channel, "permanent", "m")
        say(channel, get(channel, "permanent")[0].delivery_tag, permanent=True, error="malformed")
        (headers, body), = drain(channel, "graves", 1)
        check(body == "m" and headers["x-last-error"] == "malformed", "headers %r" % headers)
        check(headers["x-death"][0]["reason"] == "rejected", "x-death %r" % headers["x-death"])


def refused(broker, part, speak, queue="refusals", **arguments):
    with connect(broker) as connection:
        channel, other = connection.channel(), connection.channel()
        declare(channel, queue, **arguments)
        channel.queue_purge(queue)
        publish(channel, queue, "m")
        tag = get(channel, queue)[0].delivery_tag
        victim = speak(channel, other, tag) or channel
        try:
            until("a channel.close", lambda: victim.basic_qos(prefetch_count=1))
            raise Fail("not refused")
        except pika.exceptions.ChannelClosedByBroker as error:
            check(error.reply_code == 406 and part in error.reply_text, "%d %s" % (error.reply_code, error.reply_text))
        if victim is channel:
            other.queue_declare(queue, passive=True)   # the connection lives
            _, headers, _ = get(other, queue)
            check("x-last-error" not in headers, "settled all the same: %r" % headers)
        else:
            channel.basic_ack(tag)                     # not settled: this does it


def errors_settle_nothing(broker):
    retry = dict(x_delayed_retry_min=50)
    refused(broker, "unknown delivery tag 77", lambda channel, _, tag: say(channel, 77, error="x"), **retry)
    refused(broker, "expected a delivery tag", lambda channel, _, tag: say(channel, "one", error="x"), **retry)

    def on_another_channel(_, other, tag):
        say(other, tag, error="x")
        return other
    refused(broker, "unknown delivery tag 1", on_another_channel, **retry)
    refused(broker, "x-retry-delay", lambda channel, _, tag: say(channel, tag, delay="soon", error="x"), **retry)
    refused(broker, "x-retry-dely", lambda channel, _, tag: say(channel, tag, dely=5, error="x"), **retry)
    refused(broker, "has no retries", lambda channel, _, tag: say(channel, tag, delay=5, error="x"), queue="no-retries")


def the_exchange_is_not_to_be_changed(broker):
    with connect(broker) as connection:
        for change in (lambda c: c.exchange_declare("amq.retry", "x-retry", durable=True),
                       lambda c: c.exchange_delete("amq.retry"),
                       lambda c: c.queue_bind("no-retries", "amq.retry", "k"),
                       lambda c: c.queue_unbind("no-retries", "amq.retry", "k")):
            try:
                change(connection.channel())
                raise Fail("not refused")
            except pika.exceptions.ChannelClosedByBroker as error:
                check(error.reply_code == 403, "%d %s" % (error.reply_code, error.reply_text))
        connection.channel().exchange_declare("amq.retry", passive=True)


def confirmed_settlements_survive_kill_9(broker):
    count, told = 120, 90
    with connect(broker) as connection:
        channel = connection.channel()
        declare(channel, "kill", x_delayed_retry_min=HOUR_MS, x_dead_letter_exchange="",
                x_dead_letter_routing_key="kill-graves")
        declare(channel, "kill-graves")
        channel.confirm_delivery()
        for i in range(count):
            publish(channel, "kill", "m%d" % i)
        tags = {}
        while len(tags) < count:
            method, _, body = get(channel, "kill")
            tags[body] = method.delivery_tag
        due = time.time() + 2
        for i in range(told):   # each call returns with the broker's confirm
            if i % 2:
                say(channel, tags["m%d" % i], permanent=True, error="error %d" % i)
            else:
                say(channel, tags["m%d" % i], delay=2000, error="error %d" % i)
        broker.kill()
    broker.start()
    with connect(broker) as connection:
        channel = connection.channel()
        graves = drain(channel, "kill-graves", told // 2)
        check(sorted(body for _, body in graves) == sorted("m%d" % i for i in range(1, told, 2)), "other graves")
        for headers, body in graves:
            check(headers["x-last-error"] == "error " + body[1:], "%s: %r" % (body, headers))
        early = []
        while time.time() < due:   # what was told to wait is not there yet
            method, _, body = channel.basic_get("kill")
            if method is None:
                break
            early.append((body.decode(), time.time()))   # by then it was there
            channel.basic_ack(method.delivery_tag)
        before = [body for body, came in early if int(body[1:]) < told and came < due]
        check(not before, "before their time: %r" % before)
        rest = drain(channel, "kill", count - told // 2 - len(early))
        bodies = [body for _, body in rest] + [body for body, _ in early]
        check(sorted(bodies) == sorted("m%d" % i for i in range(count) if i >= told or i % 2 == 0), "lost or doubled")
        for headers, body in rest:
            if int(body[1:]) < told:
                check(headers == {"x-delivery-count": 1, "x-last-error": "error " + body[1:]}, "%s: %r" % (body, headers))


def the_override_of_a_live_queue(broker):
    with connect(broker) as connection:
        channel = connection.channel()
        declare(channel, "orders", x_delayed_retry_min=HOUR_MS, x_delivery_limit=5)
        channel.tx_select()   # what is committed survives the kill; a bare publish or nack may not
        publish(channel, "orders", "long")
        channel.tx_commit()
        channel.basic_nack(get(channel, "orders")[0].delivery_tag)
        channel.tx_commit()
        shell(broker, example("override"))
        status, shown = http(broker, "GET", "/queues/%2F/orders/retry")
        check(status == 200 and shown["override"] == {"min": 1000, "limit": 3}, "%d %r" % (status, shown))
        check(shown["declared"]["min"] == HOUR_MS and shown["effective"]["min"] == 1000, "%r" % shown)
        check(shown["schedule"] == [1000, 2000, 3000] and shown["total_ms"] == 6000 and shown["deliveries_max"] == 4,
              "%r" % shown)
        broker.kill()
    broker.start()
    check(http(broker, "GET", "/queues/%2F/orders/retry")[1] == shown, "changed by kill -9")
    with connect(broker) as connection:
        channel = connection.channel()
        declare(channel, "orders", x_delayed_retry_min=HOUR_MS, x_delivery_limit=5)   # what was declared rules equivalence
        publish(channel, "orders", "short")
        channel.basic_nack(get(channel, "orders")[0].delivery_tag)
        (headers, body), = drain(channel, "orders", 1)
        check(body == "short" and headers["x-delivery-count"] == 1, "%s %r" % (body, headers))
        until("one waits: the other one has kept its due time", lambda: figures(broker, "orders")["messages_delayed"] == 1)
        check(channel.basic_get("orders")[0] is None, "it did not wait")
    status, _ = http(broker, "PUT", "/queues/%2F/orders/retry", {"min": 0})
    check(status == 400, "a bad value: %d" % status)
    check(http(broker, "DELETE", "/queues/%2F/orders/retry")[0] == 204, "delete")
    check(http(broker, "GET", "/queues/%2F/orders/retry")[1]["effective"]["min"] == HOUR_MS, "still overridden")


def the_readme_s_queue(broker):
    with connect(broker) as connection:
        channel = connection.channel()
        exec(example("queue"), {"channel": channel})
        _, shown = http(broker, "GET", "/queues/%2F/orders/retry")
        check(shown["schedule"] == [500, 1000, 2000, 4000, 8000], "not that of the picture: %r" % shown)
        for queue in ("orders", "failed-messages"):
            channel.queue_delete(queue)


def the_preview_of_a_schedule(broker):
    shown = json.loads(shell(broker, example("preview")))
    check(shown == {"schedule": [500, 1000, 2000, 4000, 8000], "total_ms": 15500, "deliveries_max": 6}, "%r" % shown)


def at_least_once_loses_nothing(broker):
    """A wait queue that expires into a full queue, and into none at all, over kill -9."""
    count = 50
    with connect(broker) as connection:
        channel = connection.channel()
        # What the README says, with our names.
        arguments = dict(queue_arguments(example("at-least-once")), **{"x-message-ttl": 100})
        check(arguments["x-dead-letter-strategy"] == "at-least-once", "the example")
        for name, target in (("wait-full", "full"), ("wait-none", "none")):
            channel.queue_declare(name, durable=True, arguments=dict(arguments, **{"x-dead-letter-routing-key": target}))
        declare(channel, "full", x_max_length=1, x_overflow="reject-publish")
        channel.confirm_delivery()
        publish(channel, "full", "in the way")
        for i in range(count):
            publish(channel, "wait-full", "m%d" % i)
            publish(channel, "wait-none", "m%d" % i)
    for name in ("wait-full", "wait-none"):
        until("%s held" % name, lambda: figures(broker, name)["messages_dead_lettering"] == count)
        check(figures(broker, name)["messages"] == 0, "%s: held letters are ready" % name)
    broker.kill()
    broker.start()
    for name in ("wait-full", "wait-none"):
        until("%s held after kill -9" % name, lambda: figures(broker, name)["messages_dead_lettering"] == count)
    with connect(broker) as connection:
        channel = connection.channel()
        declare(channel, "none")
        came = drain(channel, "none", count)
        check(sorted(body for _, body in came) == sorted("m%d" % i for i in range(count)), "lost or doubled")
        check(drain_slowly(channel, "full", count + 1) == sorted(["in the way"] + ["m%d" % i for i in range(count)]),
              "lost or doubled")
        for headers, _ in came:
            check(headers["x-death"][0]["reason"] == "expired", "x-death %r" % headers["x-death"])
    for name in ("wait-full", "wait-none"):
        until("%s has nothing left" % name, lambda: figures(broker, name)["messages_dead_lettering"] == 0)
        dropped = figures(broker, name)["retry_stats"]["dropped"]
        check(not dropped, "%s: dropped %r" % (name, dropped))


def drain_slowly(channel, queue, count):
    """From a queue with room for one: the others come in one by one."""
    bodies = []
    while len(bodies) < count:
        method, _, body = get(channel, queue)
        channel.basic_ack(method.delivery_tag)
        bodies.append(body)
    return sorted(bodies)


def queue_arguments(code):
    """What an example passes to queue_declare."""
    class Channel:
        def queue_declare(self, queue, durable=False, arguments=None):
            self.arguments = arguments
    channel = Channel()
    exec(code, {"channel": channel})
    return channel.arguments


def shell(broker, code):
    """An example's commands, on our port."""
    done = subprocess.run(["sh", "-ec", code.replace("localhost:15672", "127.0.0.1:%d" % broker.http)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE_S)
    check(done.returncode == 0, "%s: %s" % (code, done.stderr.decode()[-300:]))
    return done.stdout.decode()


def the_readme_s_consumer(broker):
    class Busy(Exception):
        pass

    class Malformed(Exception):
        pass

    def handle(body):
        if body == b"busy":
            raise Busy("try later")
        if body == b"malformed":
            raise Malformed("no such account")

    names = {"pika": pika, "handle": handle, "Busy": Busy, "Malformed": Malformed}
    exec(example("python"), names)
    with connect(broker) as connection:
        channel = connection.channel()
        declare(channel, "example", x_delayed_retry_min=50, x_dead_letter_exchange="", x_dead_letter_routing_key="failed")
        declare(channel, "failed")
        began = time.monotonic()
        for body in ("good", "busy", "malformed"):
            publish(channel, "example", body)
        channel.basic_consume("example", names["on_message"])
        until("all handled", lambda: connection.process_data_events(0.05) or (
            figures(broker, "example")["messages"] == 0 and figures(broker, "example")["messages_delayed"] == 1))
        (headers, body), = drain(channel, "failed", 1)
        check(body == "malformed" and headers["x-last-error"] == "no such account", "%s %r" % (body, headers))
        due_in_s = figures(broker, "example")["next_due_at"] / 1000 - time.time()
        over = time.monotonic() - began
        check(30 - over - 1 < due_in_s <= 30.5, "due in %.1f s, not 30 less %.1f" % (due_in_s, over))


CHECKS = [a_delay_for_this_message, a_permanent_failure, errors_settle_nothing, the_exchange_is_not_to_be_changed,
          confirmed_settlements_survive_kill_9, the_readme_s_queue, the_override_of_a_live_queue, the_preview_of_a_schedule,
          at_least_once_loses_nothing, the_readme_s_consumer]


def main():
    failed = 0
    with scratch() as folder, Broker(folder) as broker:
        for one in CHECKS:
            name = one.__name__.replace("_", " ")
            try:
                one(broker)
                print("PASS own-word: " + name, flush=True)
            except Exception as error:
                failed += 1
                print("FAIL own-word: %s -- %s: %s" % (name, type(error).__name__, " ".join(str(error).split())[:400]), flush=True)
                if broker.process.poll() is not None:
                    broker.start()
        if broker.stop() != 0:
            failed += 1
            print("FAIL own-word: the broker did not stop cleanly")
    return 1 if failed else 0


sys.exit(main())
