#!/usr/bin/python3
"""kombu (Debian's) as its users have it, against a broker of this script's own. A line "PASS|FAIL|SKIP kombu: NAME" for each
check. Nothing waits for a time: every wait is for an event, with a deadline.
"""
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, free_ports, scratch  # noqa: E402
from report import Fail, Report, check  # noqa: E402

DEADLINE_S = 60


def until(connection, what, holds):
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        check(time.monotonic() < deadline, "%s: not within %d s" % (what, DEADLINE_S))
        try:
            connection.drain_events(timeout=0.2)
        except socket.timeout:
            pass


def connect(broker, **more):
    import kombu
    return kombu.Connection("pyamqp://guest:guest@127.0.0.1:%d//" % broker.amqp, **more)


def simple_queues(broker):
    with connect(broker) as connection:
        for make in (connection.SimpleQueue, connection.SimpleBuffer):
            queue = make("simple." + make.__name__)
            queue.put({"n": [1, 2.5, None, "é"]}, headers={"k": "v"})
            message = queue.get(timeout=DEADLINE_S)
            check(message.payload == {"n": [1, 2.5, None, "é"]} and message.headers["k"] == "v", "%r" % message.payload)
            message.ack()
            try:
                queue.get(timeout=0.1)
                raise Fail("there is a second one")
            except queue.Empty:
                pass
            queue.close()


def exchange_types(broker):
    import kombu
    cases = {
        "direct": (("a", "a", 1), ("a", "b", 0)),
        "topic": (("t.*", "t.1", 1), ("t.*", "t.1.2", 0), ("t.#", "t.1.2", 1)),
        "fanout": (("", "whatever", 1),),
    }
    with connect(broker, transport_options={"confirm_publish": True}) as connection:
        channel = connection.channel()
        for kind, rows in cases.items():
            for number, (binding, key, expected) in enumerate(rows):
                exchange = kombu.Exchange("kombu.%s.%d" % (kind, number), type=kind)
                queue = kombu.Queue("kombu.%s.%d" % (kind, number), exchange=exchange, routing_key=binding)
                producer = kombu.Producer(channel, exchange=exchange)
                producer.publish({"x": 1}, routing_key=key, declare=[queue], serializer="json")
                bound = queue(channel)
                found = 0
                while bound.get(no_ack=True):
                    found += 1
                check(found == expected, "%s, binding %r, key %r: %d messages" % (kind, binding, key, found))
                bound.delete()
                exchange(channel).delete()


def ttl_and_priority(broker):
    import kombu
    with connect(broker, transport_options={"confirm_publish": True}) as connection:
        channel = connection.channel()
        producer = kombu.Producer(channel)
        by_message, by_queue = kombu.Queue("kombu.ttl"), kombu.Queue("kombu.ttl.queue", message_ttl=0.05)
        producer.publish({}, routing_key="kombu.ttl", declare=[by_message], expiration=0.05)
        producer.publish({}, routing_key="kombu.ttl.queue", declare=[by_queue])
        for queue in (by_message, by_queue):
            deadline = time.monotonic() + DEADLINE_S
            while queue(channel).queue_declare(passive=True).message_count:
                check(time.monotonic() < deadline, "%s did not expire" % queue.name)
        queue = kombu.Queue("kombu.priority", max_priority=10)
        for priority in (6, 3, 9, 3):
            producer.publish({"p": priority}, routing_key=queue.name, declare=[queue], priority=priority)
        got = [queue(channel).get(no_ack=True).payload["p"] for _ in range(4)]
        check(got == [9, 6, 3, 3], "order %r" % got)


def failover(broker):
    import kombu
    nobody, = free_ports(1)
    with kombu.Connection("pyamqp://127.0.0.1:%d;pyamqp://guest:guest@127.0.0.1:%d" % (nobody, broker.amqp)) as connection:
        connection.ensure_connection(max_retries=3, interval_start=0, interval_step=0.1)
        check(connection.connected, "not connected")
        queue = connection.SimpleQueue("kombu.failover")
        queue.put("x")
        queue.get(timeout=DEADLINE_S).ack()
        queue.close()


def rejects_and_requeues(broker):
    import kombu
    with connect(broker, transport_options={"confirm_publish": True}) as connection:
        channel = connection.channel()
        dead = kombu.Queue("kombu.dead")
        work = kombu.Queue("kombu.work", queue_arguments={
            "x-delayed-retry-min": 100, "x-delayed-retry-multiplier": 2, "x-delivery-limit": 2,
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "kombu.dead"})
        dead(channel).declare()
        kombu.Producer(channel).publish({"poison": 1}, routing_key=work.name, declare=[work])
        seen, graves = [], []

        def refuse(body, message):
            seen.append((time.monotonic(), message.headers.get("x-delivery-count", 0)))
            message.requeue()

        def bury(body, message):
            graves.append(message.headers["x-death"][0])
            message.ack()

        with kombu.Consumer(channel, [work], callbacks=[refuse], prefetch_count=1), \
                kombu.Consumer(channel, [dead], callbacks=[bury]):
            until(connection, "the dead letter", lambda: graves)
        check(graves[0]["reason"] == "delivery_limit" and [n for _, n in seen] == [0, 1, 2], "%r %r" % (graves, seen))
        gaps = [b - a for (a, _), (b, _) in zip(seen, seen[1:])]
        check(gaps[0] >= 0.1 and gaps[1] >= 0.2, "gaps %r" % gaps)


def a_prefetch_that_grows(broker):
    """What Celery does while it holds tasks for later: without it, it would stand still behind the first ones."""
    import kombu
    with connect(broker, transport_options={"confirm_publish": True}) as connection:
        channel = connection.channel()
        queue = kombu.Queue("kombu.prefetch")
        producer = kombu.Producer(channel)
        for n in range(5):
            producer.publish(n, routing_key=queue.name, declare=[queue])
        held = []
        consumer = kombu.Consumer(channel, [queue], callbacks=[lambda body, message: held.append(message)])
        consumer.qos(prefetch_count=2, apply_global=not connection.qos_semantics_matches_spec)
        with consumer:
            until(connection, "two", lambda: len(held) == 2)
            for more in (3, 4):
                consumer.qos(prefetch_count=more, apply_global=not connection.qos_semantics_matches_spec)
                until(connection, "one more", lambda: len(held) == more)
            check(queue(channel).queue_declare(passive=True).message_count == 1, "over the prefetch")
            for message in held:
                message.ack()


def a_consumer_over_a_restart(broker):
    """ConsumerMixin: reconnects by itself and consumes again."""
    import kombu
    from kombu.mixins import ConsumerMixin
    queue = kombu.Queue("kombu.mixin", durable=True)

    class Consumer(ConsumerMixin):
        connect_max_retries = None

        def __init__(self, connection):
            self.connection, self.seen = connection, []

        def get_consumers(self, Consumer, channel):
            return [Consumer([queue], callbacks=[self.on_message], prefetch_count=1)]

        def on_message(self, body, message):
            self.seen.append((body, message.delivery_info["redelivered"]))
            if len(self.seen) > 1:   # the first one is never acknowledged
                message.ack()

    consumer = Consumer(connect(broker))
    thread = threading.Thread(target=consumer.run, daemon=True)
    thread.start()

    def wait(what, count):
        deadline = time.monotonic() + DEADLINE_S
        while len(consumer.seen) < count:
            check(time.monotonic() < deadline, "%s: not within %d s" % (what, DEADLINE_S))
            time.sleep(0.02)

    def publish(body):
        with connect(broker, transport_options={"confirm_publish": True}) as connection:
            kombu.Producer(connection.channel()).publish(body, routing_key=queue.name, declare=[queue], delivery_mode=2)

    publish("one")
    wait("the first delivery", 1)
    check(broker.stop() == 0, "no clean stop")
    broker.start()
    wait("the redelivery", 2)
    publish("two")
    wait("a delivery after", 3)
    consumer.should_stop = True
    thread.join(DEADLINE_S)
    check(consumer.seen == [("one", False), ("one", True), ("two", False)], "seen %r" % consumer.seen)


CHECKS = (
    ("SimpleQueue and SimpleBuffer", simple_queues),
    ("exchange types", exchange_types),
    ("TTL and priority", ttl_and_priority),
    ("failover to the second host", failover),
    ("requeue on a queue with retries: later each time, then the dead letters", rejects_and_requeues),
    ("a prefetch that grows under a running consumer", a_prefetch_that_grows),
    ("ConsumerMixin over a restart", a_consumer_over_a_restart),
)


def main():
    report = Report("kombu")
    try:
        import kombu  # noqa: F401
    except ImportError:
        report.say("SKIP", "all", "python3-kombu is not installed")
        report.end()
    with scratch() as folder, Broker(folder) as broker:
        report.run(CHECKS, broker)
        if report.failed:
            print("-- the broker's log, its end:\n" + broker.log_end(), file=sys.stderr)
    report.end()


main()
