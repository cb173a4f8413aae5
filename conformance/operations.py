#!/usr/bin/python3
"""Running it: a backup of the live store and a start on it, taking leave of the clients, log rotation, the service
manager's protocol, descriptors, stores of other formats. Usage: operations.py (programs: $TARRYMQ, tarrymqctl beside it)."""
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pika
import pika.exceptions

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import PROGRAM, Broker, DidNotStart, in_folder  # noqa: E402
from report import Report, check  # noqa: E402

CTL = os.environ.get("TARRYMQCTL") or os.path.join(os.path.dirname(PROGRAM), "tarrymqctl")
DEADLINE_S = 60


def wait_for(what, condition):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("not in %d s: %s" % (DEADLINE_S, what))


def ctl(broker, *words, status=0):
    done = subprocess.run([CTL, "--uri", "http://guest:guest@127.0.0.1:%d" % broker.http, "--format", "json", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=4 * DEADLINE_S)
    check(done.returncode == status, "%s: status %d, expected %d; %s" % (words, done.returncode, status, done.stderr.decode()))
    return json.loads(done.stdout) if status == 0 else done.stderr.decode()


def api(broker, path, method="GET", body=None):
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (broker.http, path), method=method,
                                     data=None if body is None else json.dumps(body).encode(),
                                     headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def connect(broker):
    return pika.BlockingConnection(pika.URLParameters(broker.url + "?socket_timeout=30"))


class Load:
    """A publisher with confirms, and a consumer that acknowledges, rejects (a retry) or drops (a dead letter)."""

    def __init__(self, broker):
        self.broker, self.stopping = broker, threading.Event()
        self.confirmed, self.settled, self.failed = [], set(), []
        with connect(broker) as connection:
            channel = connection.channel()
            channel.queue_declare("dead", durable=True)
            channel.queue_declare("work", durable=True, arguments={
                "x-delayed-retry-min": 100, "x-delivery-limit": 2, "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead"})
        self.threads = [threading.Thread(target=self.guarded, args=(run,)) for run in (self.publish, self.consume)]
        for thread in self.threads:
            thread.start()

    def guarded(self, run):
        try:
            run()
        except Exception as error:   # said by stop()
            self.failed.append(error)

    def publish(self):
        connection = connect(self.broker)
        channel = connection.channel()
        channel.confirm_delivery()
        number = 0
        while not self.stopping.is_set():
            body = b"%d %s" % (number, b"x" * (20_000 if number % 10 == 0 else 50))
            channel.basic_publish("", "work", body, pika.BasicProperties(delivery_mode=2))
            self.confirmed.append(number)
            number += 1
        connection.close()

    def consume(self):
        connection = connect(self.broker)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        for method, _, body in channel.consume("work", inactivity_timeout=0.1):
            if self.stopping.is_set():
                break
            if method is None:
                continue
            number = int(body.split()[0])
            if number % 4 == 0:
                self.settled.add(number)   # before it is said: it may be gone from now on
                channel.basic_ack(method.delivery_tag)
            elif number % 4 == 1:
                channel.basic_reject(method.delivery_tag, requeue=True)
            else:
                channel.basic_reject(method.delivery_tag, requeue=False)
        connection.close()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        check(not self.failed, "the load ended early: %s" % self.failed)


def everything_in(broker):
    """Numbers in the two queues, once each as often as they are there; what waits is let go."""
    found = []
    with connect(broker) as connection:
        channel = connection.channel()

        def take():
            for queue in ("work", "dead"):
                while True:
                    method, _, body = channel.basic_get(queue, auto_ack=True)
                    if method is None:
                        break
                    found.append(int(body.split()[0]))
            # Dead letters that were on their way, and what comes due.
            queues = api(broker, "/api/queues/%2F?columns=name,messages,messages_delayed,messages_dead_lettering")[1]
            return not any(q.get("messages", 0) + q.get("messages_delayed", 0) + q.get("messages_dead_lettering", 0) for q in queues)

        wait_for("the queues are empty", take)
    return found


def backup_under_load(folder):
    with Broker(folder) as broker:
        load = Load(broker)
        wait_for("some load", lambda: len(load.confirmed) > 500)
        for name in ("first", "second"):
            before = set(load.confirmed)
            copy = os.path.join(folder, name, "data")
            os.mkdir(os.path.dirname(copy))
            state = ctl(broker, "backup", copy)
            check(state["state"] == "done" and state["bytes"] == state["bytes_total"] > 0, state)
            settled = set(load.settled)
            known = len(load.confirmed)   # it goes on: what the copy has must not follow
            wait_for("more load behind the backup", lambda: len(load.confirmed) > known + 50)
            with Broker(os.path.dirname(copy)) as restored:
                found = everything_in(restored)
                check(restored.stop() == 0, "the copy's broker did not end well")
            missing = before - settled - set(found)
            check(not missing, "%d confirmed before the call are not in the copy: %s" % (len(missing), sorted(missing)[:10]))
            check(len(found) == len(set(found)), "twice in the copy: %s" % sorted(n for n in set(found) if found.count(n) > 1)[:10])
            with open(os.path.join(os.path.dirname(copy), "broker.log")) as log:
                text = log.read()
            check(" error " not in text and " warning " not in text, "the start on the copy was not silent: " + text[-800:])
        load.stop()
        check(broker.stop() == 0, "the broker did not end well")


def backup_refused(folder):
    with Broker(folder) as broker:
        there = os.path.join(folder, "there")
        os.mkdir(there)
        check("is there already" in ctl(broker, "backup", there, status=1), "an existing directory")
        check("inside of the data directory" in ctl(broker, "backup", os.path.join(folder, "data", "x"), status=1), "in itself")
        status, answer = api(broker, "/api/backup", "POST", {"directory": "relative"})
        check(status == 400 and "absolute" in answer["reason"], (status, answer))
        status, answer = api(broker, "/api/backup", "POST", {})
        check(status == 400 and "directory" in answer["reason"], (status, answer))
        check(ctl(broker, "backup_status")["state"] == "failed", "the last one's fate")


def drain(folder):
    with Broker(folder) as broker:
        polite, stubborn = connect(broker), connect(broker)
        channel = stubborn.channel()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"held", pika.BasicProperties(delivery_mode=2))
        wait_for("a message to hold", lambda: channel.basic_get("q")[0])
        check(ctl(broker, "drain_status") == {"state": "none", "connections": 2, "closed": 0, "left_ms": 0}, "before")
        check(api(broker, "/api/health/checks/is-in-service")[0] == 200, "in service before")
        state = ctl(broker, "drain", "--timeout", "3600", "--no-wait")
        check(state["state"] == "waiting" and state["connections"] == 2 and state["left_ms"] > 3_000_000, state)

        def refused():
            try:
                socket.create_connection(("127.0.0.1", broker.amqp), 5).close()
            except ConnectionRefusedError:
                return True
            return False

        wait_for("new clients are refused", refused)
        check(api(broker, "/api/health/checks/is-in-service")[0] == 503, "in service while it drains")
        check(api(broker, "/api/health/checks/ready-to-serve-clients")[0] == 503, "ready while it drains")
        check(api(broker, "/api/nodes")[1][0]["being_drained"] is True, "the node does not say so")
        channel.queue_declare("q", passive=True)   # who is there goes on
        polite.close()
        wait_for("one is left", lambda: ctl(broker, "drain_status")["connections"] == 1)
        state = ctl(broker, "drain", "--timeout", "0", "--no-wait")   # a new time
        try:
            for _ in range(600):
                stubborn.process_data_events(0.1)
            raise AssertionError("still connected")
        except pika.exceptions.ConnectionClosed as closed:
            check(closed.reply_code == 320, closed)
        state = wait_for("drained", lambda: (lambda s: s if s["state"] == "drained" else None)(ctl(broker, "drain_status")))
        check(state["connections"] == 0 and state["closed"] == 1, state)
        wait_for("what was held is ready again", lambda: api(broker, "/api/queues/%2F/q")[1]["messages_ready"] == 1)
        check(broker.stop() == 0, "the drained broker did not end well")
        broker.start()   # a start is the way back
        connect(broker).close()


def log_rotation(folder):
    log, old = os.path.join(folder, "tarrymq.log"), os.path.join(folder, "tarrymq.log.1")
    with Broker(folder, "--log-file", log) as broker:
        with open(log) as file:
            check(" started: " in file.read(), "the log is not in the file")
        os.rename(log, old)
        broker.process.send_signal(signal.SIGHUP)
        wait_for("a new file", lambda: os.path.exists(log) and "SIGHUP" in open(log).read())
        size = os.path.getsize(old)
        check(broker.stop() == 0, "the end")
        check(os.path.getsize(old) == size, "the old file still grows")
        check("stopped" in open(log).read(), "the end is not in the new file")
        check(os.path.getsize(broker.log_path) == 0, "something went to stderr: " + open(broker.log_path).read())
    missing = os.path.join(folder, "no", "such", "log")
    done = subprocess.run([PROGRAM, "--data-dir", os.path.join(folder, "other"), "--log-file", missing], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=DEADLINE_S)
    check(done.returncode == 2 and b"log_file: cannot write " + missing.encode() in done.stderr, done)


def service_manager(folder):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0tarrymq-test-%d" % os.getpid())

        def heard(first):
            while True:
                check(select.select([manager], [], [], DEADLINE_S)[0], "no %s" % first)
                lines = manager.recv(4096).decode().splitlines()
                if lines[0] == first:
                    return lines

        os.environ.update(NOTIFY_SOCKET="@tarrymq-test-%d" % os.getpid(), WATCHDOG_USEC="5000000")
        try:
            with Broker(folder) as broker:
                check("amqp 127.0.0.1:%d" % broker.amqp in heard("READY=1")[1], "the status line")
                heard("WATCHDOG=1")
                heard("WATCHDOG=1")
                broker.process.send_signal(signal.SIGHUP)
                check(heard("RELOADING=1")[1].startswith("MONOTONIC_USEC="), "the time of the reload")
                heard("READY=1")
                check(broker.stop() == 0, "the end")
                heard("STOPPING=1")
        finally:
            del os.environ["NOTIFY_SOCKET"], os.environ["WATCHDOG_USEC"]


def descriptors(folder):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with Broker(folder) as broker:
            check(api(broker, "/api/nodes")[1][0]["fd_total"] == hard, "the limit is not raised to %d" % hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def crc32c(data, seed):
    """As storage/FORMAT.md has it: without a final inversion."""
    for byte in data:
        seed ^= byte
        for _ in range(8):
            seed = (seed >> 1) ^ (0x82f63b78 if seed & 1 else 0)
    return seed


def other_formats(folder):
    with Broker(folder) as broker:
        with connect(broker) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q", durable=True)
            channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
        check(broker.stop() == 0, "the end")
        segments = [os.path.join(at, name) for at, _, names in os.walk(os.path.join(folder, "data", "queues"))
                    for name in names if name.endswith(".seg")]
        check(len(segments) == 1, segments)
        with open(segments[0], "rb") as file:
            whole = file.read()
        for version in (0, 2, 77):
            head = whole[:8] + struct.pack("<I", version) + whole[12:60]
            with open(segments[0], "wb") as file:
                file.write(head + struct.pack("<I", crc32c(head, 0x74617272)) + whole[64:])
            try:
                broker.start()
                raise AssertionError("a segment of version %d is taken" % version)
            except DidNotStart as error:
                words = "%s is of format version %d; this program reads version 1" % (segments[0], version)
                check(words in str(error), "not the words: %s" % error)
            check(broker.process.returncode in (2, -9), broker.process.returncode)
            with open(segments[0], "rb") as file:
                check(file.read()[64:] == whole[64:], "the file was changed")
        with open(segments[0], "wb") as file:
            file.write(whole)
        broker.start()
        with connect(broker) as connection:
            check(connection.channel().basic_get("q", auto_ack=True)[2] == b"kept", "the message after the refusals")


def main():
    report = Report("operations")
    report.run([("a backup under load, and a start on it", in_folder(backup_under_load)),
                ("a backup that cannot be", in_folder(backup_refused)),
                ("drain", in_folder(drain)),
                ("log rotation", in_folder(log_rotation)),
                ("the service manager is told", in_folder(service_manager)),
                ("the limit of descriptors is raised", in_folder(descriptors)),
                ("a store of another format is refused with words", in_folder(other_formats))])
    report.end()


if __name__ == "__main__":
    main()
