#!/usr/bin/python3
"""The main job with a stock client: one message, rejected until its limit, and the dead letter that is left of it.

Usage: demo.py AMQP_PORT [HOST]
"""
import sys
import time

import pika

LIMIT, MIN_MS, MULTIPLIER, MAX_MS = 5, 200, 2, 3000
DEADLINE_S = 40


def planned_ms(attempt):
    return min(MIN_MS * MULTIPLIER ** (attempt - 1), MAX_MS)


def main():
    host = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(sys.argv[1])))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("failed-messages", durable=True)
    channel.queue_declare("orders", durable=True, arguments={
        "x-delayed-retry-min": MIN_MS,
        "x-delayed-retry-multiplier": MULTIPLIER,
        "x-delayed-retry-max": MAX_MS,
        "x-delivery-limit": LIMIT,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "failed-messages"})
    print("queue 'orders': first delay %d ms, doubled each time, %d ms at most, %d redeliveries, then 'failed-messages'"
          % (MIN_MS, MAX_MS, LIMIT))
    channel.basic_publish("", "orders", b"order 4711", pika.BasicProperties(delivery_mode=2))
    print("published 'order 4711'; every delivery is rejected:\n")
    print("delivery  x-delivery-count  planned delay  real delay")

    rejected_at = None
    early = wrong = 0
    attempt = 0
    begin = time.monotonic()
    for method, properties, _ in channel.consume("orders", inactivity_timeout=0.05):
        if method is None:
            if attempt > LIMIT or time.monotonic() - begin > DEADLINE_S:
                break
            continue
        now = time.monotonic()
        count = (properties.headers or {}).get("x-delivery-count", 0)
        attempt += 1
        wrong += count != attempt - 1
        if rejected_at is None:
            print("%8d  %16s  %13s  %10s" % (attempt, "-", "-", "-"))
        else:
            real = (now - rejected_at) * 1000
            early += real < planned_ms(attempt - 1)
            print("%8d  %16d  %10d ms  %7.1f ms" % (attempt, count, planned_ms(attempt - 1), real))
        rejected_at = time.monotonic()
        channel.basic_reject(method.delivery_tag, requeue=True)
        if attempt > LIMIT:
            break
    channel.cancel()

    dead = None
    while dead is None and time.monotonic() - begin < DEADLINE_S:
        method, properties, body = channel.basic_get("failed-messages", auto_ack=True)
        if method is not None:
            dead = (properties, body)
        else:
            connection.process_data_events(time_limit=0.02)
    if dead is None:
        print("\nno dead letter arrived")
        return 1
    print("\nover the limit: the dead letter in 'failed-messages'")
    print("  body     %s" % dead[1].decode())
    death = dead[0].headers["x-death"][0]
    for key in sorted(death):
        print("  x-death  %-14s %s" % (key, death[key]))
    connection.close()
    well = attempt == LIMIT + 1 and not early and not wrong and death["reason"] == "delivery_limit"
    print("\n%s: %d deliveries, %d early, reason %s" % ("done" if well else "WRONG", attempt, early, death["reason"]))
    return 0 if well else 1


sys.exit(main())
