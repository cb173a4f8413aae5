#!/usr/bin/python3
"""tarrymqctl migrate_waiting: what waits in wait queues, as libraries build them, goes on waiting in a queue with retries.

Usage: migrate.py (programs: $TARRYMQ and the tarrymqctl beside it). The old broker is the same one: it has wait queues, too.
"""
import os
import subprocess
import sys
import time

import pika

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from waiting import World, check, fresh  # noqa: E402  (with its support folder)
from broker import PROGRAM, scratch  # noqa: E402
from report import Report  # noqa: E402

CTL = os.environ.get("TARRYMQCTL") or os.path.join(os.path.dirname(PROGRAM), "tarrymqctl")
HOUR_MS = 3600000   # nothing comes due while this runs


def migrate(world, *words, status=0):
    command = [CTL, "--uri", "http://guest:guest@127.0.0.1:%d" % world.broker.http, "migrate_waiting", *words,
               "--from", world.broker.url]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    check(status is None or done.returncode == status, "status %d: %s" % (done.returncode, done.stderr.decode()))
    return done


def items(world, queue):
    return world.call("GET", world.queue(queue, "/delayed?page_size=10000"))["items"]


def buckets_with_a_counter(world):
    """Seed 001: a bucket for each delay, the worker publishes a copy with a counter."""
    fresh(world, "orders", x_delayed_retry_min=1000, x_delayed_retry_multiplier=2, x_delivery_limit=3)
    channel = world.channel()
    for ms in (HOUR_MS, 2 * HOUR_MS):
        channel.queue_declare("orders.retry.v2.%dms" % ms, durable=True, arguments={
            "x-message-ttl": ms, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"})
    for number in range(30):
        ms = HOUR_MS if number % 2 else 2 * HOUR_MS
        channel.basic_publish("", "orders.retry.v2.%dms" % ms, b"%d" % number, pika.BasicProperties(
            delivery_mode=2, message_id="m%d" % number, headers={"x-retry-count": 1 + number % 2, "blob": "ü"}))
    migrate(world, "orders", "--wait-queue", "orders.retry.v2.%dms" % HOUR_MS,
            "--wait-queue", "orders.retry.v2.%dms" % (2 * HOUR_MS), "--counter-header", "x-retry-count")
    waiting = items(world, "orders")
    check(sorted(int(i["payload"]) for i in waiting) == list(range(30)), "not all of them, or not once")
    for item in waiting:
        number = int(item["payload"])
        check(item["delivery_count"] == 1 + number % 2, item)
        check(item["due_at"] - item["rejected_at"] == (HOUR_MS if number % 2 else 2 * HOUR_MS), item)
        check(item["properties"]["message_id"] == "m%d" % number and item["properties"]["headers"]["blob"] == "ü", item)
    left = channel.queue_declare("orders.retry.v2.%dms" % HOUR_MS, passive=True).method.message_count
    check(left == 0, "%d are left in the old queue" % left)
    world.call("POST", world.queue("orders", "/delayed/redeliver"), {"all": True})
    world.wait_figure("orders", "messages_ready", 30)
    body, properties, _ = world.drain("orders")[0]
    check(properties.headers["x-delivery-count"] == 1 + int(body) % 2 and properties.delivery_mode == 2, properties)
    channel.connection.close()


def one_wait_queue_and_x_death(world):
    """A rejection dead-letters into the wait queue: its time and the count are in x-death."""
    fresh(world, "tasks.wait", x_message_ttl=HOUR_MS, x_dead_letter_exchange="", x_dead_letter_routing_key="tasks")
    fresh(world, "tasks", x_dead_letter_exchange="", x_dead_letter_routing_key="tasks.wait")
    fresh(world, "tasks2", x_delayed_retry_min=HOUR_MS)
    channel = world.channel()
    channel.exchange_declare("shop", "direct", durable=True)
    channel.queue_bind("tasks", "shop", "task.new")
    began = time.time()
    for number in range(5):
        channel.basic_publish("shop", "task.new", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        got = world.wait_for("a delivery", lambda: [g for g in [channel.basic_get("tasks")] if g[0]])[0]
        channel.basic_reject(got[0].delivery_tag, requeue=False)
    world.wait_figure("tasks.wait", "messages_ready", 5)
    migrate(world, "tasks2", "--wait-queue", "tasks.wait", "--ttl", str(HOUR_MS), "--main-queue", "tasks")
    for item in items(world, "tasks2"):
        check(item["delivery_count"] == 1 and item["exchange"] == "shop" and item["routing_key"] == "task.new", item)
        left = item["due_at"] - item["rejected_at"]
        over = (time.time() - began) * 1000
        check(HOUR_MS - over - 1000 <= left <= HOUR_MS, "%d ms are left after %d" % (left, over))
        check(item["properties"]["headers"]["x-death"][0]["queue"] == "tasks", item)
    check(len(items(world, "tasks2")) == 5, "not all")
    channel.connection.close()


def wrong_words(world):
    fresh(world, "plain")
    fresh(world, "retrying", x_delayed_retry_min=1000)
    fresh(world, "nameless")
    world.publish("nameless", [b"1"])
    check(b"x-delayed-retry-min" in migrate(world, "plain", "--wait-queue", "nameless", status=1).stderr, "no retries")
    migrate(world, "nobody", "--wait-queue", "nameless", status=5)
    check(b"no-such" in migrate(world, "retrying", "--wait-queue", "no-such", status=5).stderr, "no such wait queue")
    check(b"--ttl" in migrate(world, "retrying", "--wait-queue", "nameless", status=2).stderr, "no delay known")
    world.wait_figure("nameless", "messages_ready", 1)   # it went back
    out = migrate(world, "retrying", "--wait-queue", "nameless", "--dry-run").stdout
    check(b"1 wait" in out, out)


def kills_in_the_middle(world):
    """Of the tool, and of the broker: nothing is lost; a copy may be in both places."""
    count = 4000
    fresh(world, "k", x_delayed_retry_min=HOUR_MS)
    fresh(world, "k.wait.60m")
    world.publish("k.wait.60m", (b"%d" % i for i in range(count)))
    world.wait_figure("k.wait.60m", "messages_ready", count)
    for whom in ("tool", "broker", "tool"):
        had = world.figures("k")["messages_delayed"]
        tool = subprocess.Popen([CTL, "--uri", "http://guest:guest@127.0.0.1:%d" % world.broker.http, "migrate_waiting", "k",
                                 "--wait-queue", "k.wait.60m", "--from", world.broker.url],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        world.wait_for("a start", lambda: world.figures("k")["messages_delayed"] >= had + 400 or tool.poll() is not None)
        if whom == "broker":
            world.restart()
        tool.kill()
        tool.wait()
    world.wait_figure("k.wait.60m", "messages_unacknowledged", 0)   # what the killed one held is back
    migrate(world, "k", "--wait-queue", "k.wait.60m")
    world.wait_figure("k.wait.60m", "messages", 0)
    numbers = [int(i["payload"]) for i in items(world, "k")]
    check(set(numbers) == set(range(count)), "%d are lost" % (count - len(set(numbers))))
    print("# %d in both places after three kills" % (len(numbers) - count), flush=True)


def main():
    report = Report("migrate")
    if not os.path.exists(CTL):
        report.say("SKIP", "all", "no tarrymqctl beside the broker")
        report.end()
    with scratch() as folder:
        world = World(folder)
        try:
            report.run([
                ("buckets of one delay each, a counter header", buckets_with_a_counter),
                ("one wait queue, x-death", one_wait_queue_and_x_death),
                ("what it cannot do it says", wrong_words),
                ("three kills in the middle lose nothing", kills_in_the_middle),
            ], world)
        finally:
            world.broker.kill()
    report.end()


if __name__ == "__main__":
    main()
