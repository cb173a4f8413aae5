#!/usr/bin/python3
"""How long pages of many things take over HTTP: below 100 ms each is the goal.

  tests/load/pages.py [--broker build/release/tarrymq] [--queues 10000] [--waiting 1000000] [--limit-ms MS]

Declares that many queues by an import, and parks that many waiting messages in one queue; then asks for pages of both,
first to last, sorted and filtered, each five times. Prints the median and the slowest of each, and what it costs the
broker in time of a processor, which says more where others use the machine; exit status 1 when a median is above --limit-ms.
"""
import argparse
import base64
import json
import os
import statistics
import sys
import tempfile
import time
import http.client

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "conformance", "support"))
import broker as brokers  # noqa: E402

TIMES = 5
HOUR_MS = 3600000


class Api:
    def __init__(self, port, pid):
        self.pid = pid
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self.headers = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}

    def call(self, method, path, body=None):
        """(seconds, what the answer holds)."""
        text = None if body is None else json.dumps(body).encode()
        began = time.monotonic()
        self.connection.request(method, "/api" + path, text, self.headers)
        answer = self.connection.getresponse()
        got = answer.read()
        took = time.monotonic() - began
        if answer.status >= 300:
            sys.exit("%s %s: %d %s" % (method, path, answer.status, got[:300]))
        return took, json.loads(got) if got else None


def processor_ms(pid):
    """Of all threads so far."""
    total = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, thread)) as file:
            total += int(file.read().split()[0])
    return total / 1e6


def timed(api, title, path, expected, meanwhile=lambda: None):
    """Median in ms; the answer has `expected` items. `meanwhile` is done before each, untimed."""
    took, before = [], processor_ms(api.pid)
    for _ in range(TIMES):
        meanwhile()
        seconds, page = api.call("GET", path)
        took.append(seconds * 1000)
        if len(page["items"]) != expected:
            sys.exit("%s: %d items, not %d" % (path, len(page["items"]), expected))
    median = statistics.median(took)
    print("%-44s median %7.1f ms, slowest %7.1f ms, of a processor %6.1f ms" %
          (title, median, max(took), (processor_ms(api.pid) - before) / TIMES), flush=True)
    return median


def many_queues(api, count):
    api.call("POST", "/definitions", {"queues": [
        {"name": "q.%06d" % i, "vhost": "/", "durable": True, "auto_delete": False,
         "arguments": {"x-delayed-retry-min": 500} if i % 10 == 0 else {}} for i in range(count)]})
    last = (count + (count + 9) // 10 + 99) // 100   # with the companions
    rest = (count + (count + 9) // 10) % 100 or 100
    pages = "/queues?page_size=100&page="
    return [timed(api, "%d queues: the first page" % count, pages + "1", 100),
            timed(api, "the last page", pages + str(last), rest),
            timed(api, "by messages ready, down", pages + "1&sort=messages_ready&sort_reverse=true", 100),
            timed(api, "by the rate of publishes, down", pages + "1&sort=message_stats.publish_details.rate&sort_reverse=true", 100),
            timed(api, "those with '7' in their name, by name down", pages + "1&name=7&sort=name&sort_reverse=true", 100),
            timed(api, "by a regular expression", pages + "1&name=%5Eq.*5%24&use_regex=true", 100),
            timed(api, "as the page of queues asks", pages + "1&sort=messages&columns=name,vhost,state,messages,message_stats", 100)]


def many_waiting(api, count, batch=1000):
    api.call("PUT", "/queues/%2F/many", {"durable": True, "arguments": {"x-delayed-retry-min": HOUR_MS}})
    began = time.monotonic()

    def park(first, end):
        api.call("POST", "/queues/%2F/many/delayed", {"messages": [
            {"payload": "message %d" % i, "delay_ms": HOUR_MS + i * 10, "delivery_count": 1, "routing_key": "many",
             "properties": {"delivery_mode": 2, "headers": {"tenant": "t%d" % (i % 7)}}, "last_error": "HTTP 503 %d" % i}
            for i in range(first, end)]})
    for first in range(0, count, batch):
        park(first, min(first + batch, count))
    print("%d messages parked in %.0f s" % (count, time.monotonic() - began), flush=True)
    path = "/queues/%2F/many/delayed?page="
    last = (count + 99) // 100
    return [timed(api, "%d waiting: the first page" % count, path + "1", 100),
            timed(api, "the second page", path + "2", 100),
            timed(api, "the middle page", path + str(last // 2), 100),
            timed(api, "the last page but one", path + str(last - 1), 100),
            timed(api, "the last page", path + str(last), (count - 1) % 100 + 1),
            timed(api, "the first page, due within a bound", path + "1&due_before=%d" % (time.time() * 1000 + 2 * HOUR_MS), 100),
            timed(api, "the middle page while more come", path + str(last // 2), 100, lambda: park(count // 2, count // 2 + 500))]


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--broker", default=os.path.join(ROOT, "build", "release", "tarrymq"))
    words.add_argument("--queues", type=int, default=10000)
    words.add_argument("--waiting", type=int, default=1000000)
    words.add_argument("--limit-ms", type=float, default=100)
    options = words.parse_args()
    brokers.PROGRAM = options.broker
    with tempfile.TemporaryDirectory(prefix="tarrymq-pages-") as folder, brokers.Broker(folder) as broker:
        api = Api(broker.http, broker.process.pid)
        medians = many_queues(api, options.queues) if options.queues else []
        medians += many_waiting(api, options.waiting) if options.waiting else []
    slow = [m for m in medians if m > options.limit_ms]
    print("%d of %d pages are slower than %.0f ms" % (len(slow), len(medians), options.limit_ms))
    return 1 if slow else 0


sys.exit(main())
