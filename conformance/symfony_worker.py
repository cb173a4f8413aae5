#!/usr/bin/python3
"""A real worker of Symfony Messenger (Debian's) against a broker of this script's own. A line "PASS|FAIL|SKIP symfony: NAME"
for each check.

Symfony builds a queue for each delay, with a TTL, that dead-letters back and expires itself soon after. Nothing waits
for a time: every wait is for an event, with a deadline; delays are lower bounds.
"""
import os
import shutil
import signal
import subprocess
import sys
import time

import pika

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
from broker import Broker, scratch  # noqa: E402
from report import Report, check, one_line  # noqa: E402

DEADLINE_S = 120
RETRY_DELAYS_S = (0.2, 0.4, 0.8)   # of the strategy in symfony/app.php
APP = os.path.join(HERE, "symfony", "app.php")


def until(what, holds):
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = holds()
        if found:
            return found
        check(time.monotonic() < deadline, "%s: not within %d s" % (what, DEADLINE_S))
        time.sleep(0.05)


class Worker:
    def __init__(self, folder):
        self.log_path = os.path.join(folder, "worker.log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(["php", APP, "messenger:consume", "async", "plain", "--sleep=0.05"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def log_end(self):
        with open(self.log_path, errors="replace") as log:
            return "".join(log.readlines()[-30:])


class Bench:
    def __init__(self, folder, broker):
        self.folder, self.broker = folder, broker
        self.ledger = os.environ["LEDGER"] = os.path.join(folder, "ledger")
        os.environ["AMQP_DSN"] = "amqp://guest:guest@127.0.0.1:%d/%%2f" % broker.amqp
        self.app("setup")
        self.worker = Worker(folder)

    def app(self, *arguments):
        done = subprocess.run(["php", APP, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=DEADLINE_S)
        check(done.returncode == 0, "app.php %s: %s" % (arguments[0], one_line(done.stdout.decode(errors="replace"))))

    def send(self, transport, name, failures=0, delay_ms=0):
        """When it was sent, at the earliest."""
        began = time.time()
        self.app("send", transport, name, str(failures), str(delay_ms))
        return began

    def runs(self, name):
        """[(retry, time)] of a message's deliveries."""
        try:
            with open(self.ledger) as file:
                rows = [line.split() for line in file if line.endswith("\n")]
        except OSError:
            return []
        return [(int(retry), float(at)) for noted, retry, at in rows if noted == name]

    def get(self, queue):
        """The next message of a queue, taken from it."""
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        try:
            channel = connection.channel()
            return until("a message in " + queue, lambda: (lambda got: got if got[0] else None)(channel.basic_get(queue, auto_ack=True)))
        finally:
            connection.close()


def handled(bench):
    for n in range(5):
        bench.send("async", "plain.%d" % n)
    until("five messages", lambda: all(bench.runs("plain.%d" % n) for n in range(5)))
    check(all(len(bench.runs("plain.%d" % n)) == 1 for n in range(5)), "one came twice")


def every_round(bench):
    bench.send("async", "flaky", failures=3)
    runs = until("four rounds", lambda: (lambda r: r if len(r) == 4 else None)(bench.runs("flaky")))
    check([retry for retry, _ in runs] == [0, 1, 2, 3], "retries %r" % runs)
    gaps = [b - a for (_, a), (_, b) in zip(runs, runs[1:])]
    check(all(gap >= delay for gap, delay in zip(gaps, RETRY_DELAYS_S)), "gaps %r" % gaps)


def failure_transport(bench):
    bench.send("async", "hopeless", failures=99)
    _, properties, body = bench.get("failed")
    check(b"hopeless" in body, "%r" % body[:200])
    check([retry for retry, _ in bench.runs("hopeless")] == [0, 1, 2, 3], "retries %r" % bench.runs("hopeless"))


def two_delays(bench):
    slow = bench.send("async", "slow", delay_ms=3000)
    fast = bench.send("async", "fast", delay_ms=500)
    until("the fast one", lambda: bench.runs("fast"))
    until("the slow one", lambda: bench.runs("slow"))
    check(bench.runs("fast")[0][1] - fast >= 0.5 and bench.runs("slow")[0][1] - slow >= 3, "too early")
    check(len(bench.runs("fast")) == 1 and len(bench.runs("slow")) == 1, "one came twice")


def rejected(bench):
    """Without a strategy of Symfony's the worker rejects, and the broker dead-letters."""
    bench.send("plain", "rejected", failures=99)
    _, properties, _ = bench.get("failed")
    death = properties.headers["x-death"][0]
    check(death["reason"] == "rejected" and death["queue"] == "plain", "x-death %r" % death)
    check(len(bench.runs("rejected")) == 1, "%r" % bench.runs("rejected"))


def restart(bench):
    """A worker ends when its connection is lost, and its supervisor starts another: here that is us."""
    began = bench.send("async", "waits", delay_ms=4000)
    check(bench.broker.stop() == 0, "no clean stop")
    bench.broker.start()
    until("the worker's end", lambda: bench.worker.process.poll() is not None)
    bench.worker = Worker(bench.folder)
    until("what waited over the restart", lambda: bench.runs("waits"))
    check(bench.runs("waits")[0][1] - began >= 4, "too early")
    bench.send("async", "after", failures=1)
    until("a retry after the restart", lambda: len(bench.runs("after")) == 2)


CHECKS = (
    ("messages are handled once", handled),
    ("three retries with growing delays, every round delivered", every_round),
    ("after the last retry it goes to the failure transport", failure_transport),
    ("two delays side by side", two_delays),
    ("without a strategy: rejected, then a dead letter of the broker", rejected),
    ("the broker restarts: what waited is delivered to the next worker", restart),
)


def main():
    report = Report("symfony")
    missing = [what for what, there in (
        ("php-cli", shutil.which("php")),
        ("php-symfony-amqp-messenger", os.path.exists("/usr/share/php/Symfony/Component/Messenger/Bridge/Amqp/autoload.php")),
    ) if not there]
    if missing:
        report.say("SKIP", "all", "not installed: " + ", ".join(missing))
        report.end()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with scratch() as folder, Broker(folder) as broker:
        bench = Bench(folder, broker)
        try:
            report.run(CHECKS, bench)
        finally:
            bench.worker.end()
        if report.failed:
            print("-- the worker's log, its end:\n%s\n-- the broker's log, its end:\n%s"
                  % (bench.worker.log_end(), broker.log_end()), file=sys.stderr)
    report.end()


main()
