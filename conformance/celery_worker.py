#!/usr/bin/python3
"""A real Celery worker (Debian's) against a broker of this script's own. A line "PASS|FAIL|SKIP celery: NAME" for each check.

Nothing waits for a time: every wait is for an event, with a deadline; delays are lower bounds.
"""
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
from broker import Broker, scratch  # noqa: E402
from report import Report, check  # noqa: E402

DEADLINE_S = 120


def until(what, holds):
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = holds()
        if found:
            return found
        check(time.monotonic() < deadline, "%s: not within %d s" % (what, DEADLINE_S))
        time.sleep(0.05)


class Worker:
    """One process, so that the order of what it does is the order in which it was delivered."""

    def __init__(self, folder):
        self.log_path = os.path.join(folder, "worker.log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["/usr/bin/python3", "-m", "celery", "-A", "conformance_tasks", "worker", "-c", "1", "-n", "one@conformance",
                 "--without-mingle", "-l", "INFO"],
                cwd=os.path.join(HERE, "celery_app"), env=dict(os.environ, C_FORCE_ROOT="1"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)   # at once, and with its pool
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Bench:
    def __init__(self, broker, app, tasks, ledger):
        self.broker, self.app, self.tasks, self.ledger = broker, app, tasks, ledger

    def times(self, name):
        """When the tasks with this name ran."""
        try:
            with open(self.ledger) as file:
                rows = [line.split() for line in file if line.endswith("\n")]
        except OSError:
            return []
        return [float(at) for noted, at in rows if noted == name]

    def order(self, names):
        with open(self.ledger) as file:
            return [line.split()[0] for line in file if line.split()[0] in names]

    def dead_letters(self, count):
        """The next ones of the dead-letter queue, taken from it."""
        from kombu import Connection
        found = []
        with Connection(os.environ["AMQP_URL"]) as connection:
            queue = self.dead_queue(connection.channel())

            def more():
                message = queue.get(no_ack=True)
                if message:
                    found.append(message)
                return len(found) >= count
            until("%d dead letters" % count, more)
        return found

    def dead_queue(self, channel):
        from kombu import Queue
        queue = Queue("conformance.dead", self.tasks.dead, durable=True)(channel)
        queue.declare()
        return queue


def results(bench):
    sent = [bench.tasks.add.delay(i, i) for i in range(50)]
    got = [r.get(timeout=DEADLINE_S) for r in sent]
    check(got == [2 * i for i in range(50)], "results %r" % got)


def retries(bench):
    result = bench.tasks.fails_first.delay("flaky", 3, 0.3)
    check(result.get(timeout=DEADLINE_S) == 3, "retries %r" % result.result)
    at = bench.times("flaky")
    check(len(at) == 4, "ran %d times" % len(at))
    gaps = [b - a for a, b in zip(at, at[1:])]
    check(min(gaps) >= 0.25, "gaps %r" % gaps)   # the worker's own timer, which may be some ms early


def retries_end(bench):
    result = bench.tasks.always_fails.delay("hopeless")
    error = result.get(timeout=DEADLINE_S, propagate=False)
    check(isinstance(error, KeyError), "result %r" % error)
    check(len(bench.times("hopeless")) == 3, "ran %d times, not 3" % len(bench.times("hopeless")))


def many_etas(bench):
    """Celery raises its prefetch by one for each ETA that it holds, so that other tasks go on."""
    waiting = [bench.tasks.noted.apply_async(("held.%d" % n,), countdown=3600) for n in range(5)]
    check(bench.tasks.add.delay(1, 2).get(timeout=DEADLINE_S) == 3, "a task behind five ETAs")
    bench.app.control.revoke([r.id for r in waiting], destination=["one@conformance"])


def eta(bench):
    began = time.time()
    late, soon = (bench.tasks.noted.apply_async(("eta.%d" % n,), countdown=n) for n in (2, 1))
    check(soon.get(timeout=DEADLINE_S) == "eta.1" and late.get(timeout=DEADLINE_S) == "eta.2", "results")
    for n in (1, 2):
        check(bench.times("eta.%d" % n)[0] - began >= n - 0.05, "eta.%d ran %.3f s after it was sent"
              % (n, bench.times("eta.%d" % n)[0] - began))


def lost_worker(bench):
    result = bench.tasks.dies_first.delay("dies")
    check(result.get(timeout=DEADLINE_S) == "second life", "result %r" % result.result)
    check(len(bench.times("dies")) == 2, "ran %d times" % len(bench.times("dies")))


def priorities(bench):
    control = bench.app.control

    def consumed():
        queues = (control.inspect(timeout=1).active_queues() or {}).get("one@conformance")
        return queues and [q["name"] for q in queues]

    control.cancel_consumer("conformance.priority", destination=["one@conformance"])
    until("cancelled", lambda: "conformance.priority" not in (consumed() or ["conformance.priority"]))
    names = {}
    sent = []
    for priority in (1, 9, 5, 1, 9, 5, 0):
        name = "priority.%d.%d" % (priority, len(names))
        names[name] = priority
        sent.append(bench.tasks.noted.apply_async((name,), queue="conformance.priority", priority=priority))
    control.add_consumer("conformance.priority", reply=True, timeout=DEADLINE_S, destination=["one@conformance"])
    for r in sent:
        r.get(timeout=DEADLINE_S)
    ran = bench.order(names)
    check(ran == sorted(names, key=lambda n: -names[n]), "order %r" % ran)


def remote_control(bench):
    control = bench.app.control
    pong = until("ping", lambda: control.ping(timeout=1, destination=["one@conformance"]))
    check(pong == [{"one@conformance": {"ok": "pong"}}], "ping %r" % pong)
    queues = until("queues", lambda: control.inspect(timeout=2).active_queues())
    check("conformance.priority" in [q["name"] for q in queues["one@conformance"]], "queues %r" % queues)
    registered = until("tasks", lambda: control.inspect(timeout=2).registered())
    check("conformance_tasks.add" in registered["one@conformance"], "tasks %r" % registered)


def revoke(bench):
    waits = bench.tasks.noted.apply_async(("revoked",), countdown=3600)
    until("scheduled", lambda: any(t["request"]["id"] == waits.id for t in
                                   (bench.app.control.inspect(timeout=1).scheduled() or {}).get("one@conformance", [])))
    bench.app.control.revoke(waits.id, reply=True, timeout=DEADLINE_S, destination=["one@conformance"])
    revoked = until("revoked", lambda: waits.id in (bench.app.control.inspect(timeout=1).revoked() or {}).get("one@conformance", []))
    check(revoked and bench.times("revoked") == [], "it ran")


def reject_to_the_dead_letters(bench):
    bench.tasks.rejects.apply_async(("reject", False), queue="conformance.rejects")
    death = bench.dead_letters(1)[0].headers["x-death"][0]
    check(death["reason"] == "rejected" and death["queue"] == "conformance.rejects", "x-death %r" % death)
    check(len(bench.times("reject")) == 1, "ran %d times" % len(bench.times("reject")))


def the_brokers_retries(bench):
    bench.tasks.rejects.apply_async(("broker", True), queue="conformance.retries")
    death = bench.dead_letters(1)[0].headers["x-death"][0]
    check(death["reason"] == "delivery_limit" and death["queue"] == "conformance.retries", "x-death %r" % death)
    at = bench.times("broker")
    check(len(at) == 3, "ran %d times" % len(at))
    # From the rejection, which comes after the note.
    check(at[1] - at[0] >= 0.1 and at[2] - at[1] >= 0.2, "gaps %r" % at)


def restart(bench):
    """What waits and what was delivered and not acknowledged is there after a restart, and the worker comes back by itself."""
    waits = bench.tasks.noted.apply_async(("restart.eta",), countdown=8)
    until("scheduled", lambda: any(t["request"]["id"] == waits.id for t in
                                   (bench.app.control.inspect(timeout=1).scheduled() or {}).get("one@conformance", []))
          or bench.times("restart.eta"))   # a worker that answers late
    status = bench.broker.stop()
    check(status == 0, "the broker's status %d" % status)
    bench.broker.start()
    bench.tasks.noted.apply_async(("restart.later",), retry=True)
    until("the task sent after the restart", lambda: bench.times("restart.later"))
    until("the task that waited over the restart", lambda: bench.times("restart.eta"))


CHECKS = (
    ("50 tasks, results over rpc", results),
    ("a task that calls retry comes back after its countdown, each time", retries),
    ("autoretry ends after max_retries", retries_end),
    ("two ETAs, the later one sent first", eta),
    ("a task behind more ETAs than the prefetch is not held up", many_etas),
    ("acks_late and reject_on_worker_lost: a killed worker process's task runs again", lost_worker),
    ("priorities: highest first, then in order", priorities),
    ("remote control: ping, queues, tasks", remote_control),
    ("remote control: a revoked ETA never runs", revoke),
    ("Reject without requeue goes to the dead letters", reject_to_the_dead_letters),
    ("Reject with requeue on a queue with retries: later each time, then the dead letters", the_brokers_retries),
    ("the broker restarts: worker and tasks come back", restart),
)


def main():
    report = Report("celery")
    try:
        import celery
    except ImportError:
        report.say("SKIP", "all", "python3-celery is not installed")
        report.end()
    with scratch() as folder, Broker(folder) as broker:
        os.environ["AMQP_URL"], os.environ["LEDGER"] = broker.url, os.path.join(folder, "ledger")
        sys.path.insert(0, os.path.join(HERE, "celery_app"))
        import conformance_tasks as tasks
        bench = Bench(broker, tasks.app, tasks, os.environ["LEDGER"])
        with tasks.app.connection_for_write() as connection:
            bench.dead_queue(connection.channel())
        worker = Worker(folder)
        try:
            until("the worker", lambda: tasks.app.control.ping(timeout=0.5))
            report.run(CHECKS, bench)
        finally:
            worker.end()
        if report.failed:
            with open(worker.log_path, errors="replace") as log:
                print("-- Celery %s, the worker's log, its end:\n%s" % (celery.__version__, "".join(log.readlines()[-40:])),
                      file=sys.stderr)
            print("-- the broker's log, its end:\n" + broker.log_end(), file=sys.stderr)
    report.end()


main()
