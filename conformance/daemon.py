#!/usr/bin/python3
"""The daemon from outside: what it says and how it ends. Usage: daemon.py PROGRAM.

A line "PASS|FAIL daemon: name" for each check. Every wait is for an event, with a deadline.
"""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import pika
import pika.exceptions

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "support"))
from ports import free_ports  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
DEADLINE_S = 60


class Fail(Exception):
    pass


def check(condition, why):
    if not condition:
        raise Fail(why)


class Daemon:
    """One process on free ports; its stderr goes to a file, so that it never blocks."""

    def __init__(self, data, *flags, environment=None, ports=None):
        self.amqp, self.http = ports or free_ports(2)
        self.log = tempfile.TemporaryFile()
        environment = {**{k: v for k, v in os.environ.items() if not k.startswith("TARRYMQ_")}, **(environment or {})}
        self.process = subprocess.Popen(
            [PROGRAM, "--data-dir", data, "--amqp-port", str(self.amqp), "--http-port", str(self.http), *flags],
            stdout=subprocess.PIPE, stderr=self.log, env=environment)

    def ready(self):
        found, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        line = self.process.stdout.readline().decode() if found else ""
        check(" ready: " in line, "no ready line: %r; %s" % (line, self.errors()[-300:]))
        return line

    def end(self, *signals):
        for number in signals:
            self.process.send_signal(number)
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise Fail("still running %d s after the signal" % DEADLINE_S)

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def connect(self):
        return pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@127.0.0.1:%d/%%2F" % self.amqp))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def refused(daemon, *words):
    """It ends with 2 and says why in one line on stderr, nothing on stdout."""
    status = daemon.end()
    lines = daemon.errors().splitlines()
    check(status == 2, "exit status %d: %s" % (status, lines))
    check(len(lines) == 1, "not one line: %r" % lines)
    for word in words:
        check(word in lines[0], "%r does not say %r" % (lines[0], word))
    check(daemon.process.stdout.read() == b"", "something on stdout")


def bad_settings(data):
    for flags, words in (
            (("--workers", "many"), ("workers", "many", "0..256")),
            (("--frame-max", "4095"), ("frame_max", "4095", "4096..16777216")),
            (("--durability", "hope"), ("durability", "hope", "fsync, os")),
            (("--no-such-flag",), ("no-such-flag",)),
            (("--load-definitions", data), ("cannot read %s (load_definitions)" % data,)),
            (("--config", os.path.join(data, "missing.toml")), ("missing.toml",))):
        with Daemon(data, *flags) as daemon:
            refused(daemon, *words)
    with Daemon(data, environment={"TARRYMQ_HEARTBEAT_S": "-1"}) as daemon:
        refused(daemon, "heartbeat_s", "-1", "the environment")
    path = os.path.join(data, "t.toml")
    with open(path, "w") as file:
        file.write("chanel_max = 5\n")
    with Daemon(data, "--config", path) as daemon:
        refused(daemon, "chanel_max", "channel_max", "t.toml")


def data_directory_in_use(data):
    with Daemon(data) as first:
        first.ready()
        with Daemon(data) as second:
            refused(second, data, "in use")
        check(first.connect().is_open, "the first one is gone")
        check(first.end(signal.SIGTERM) == 0, "the first one did not end well")


def data_directory_that_cannot_be_had(data):
    """As after a restore by another user, but so that root is stopped, too: the line names what is wrong."""
    for name, make, word in (("lock", os.mkdir, "Is a directory"),
                             ("definitions-and-index", lambda path: open(path, "w").close(), "Not a directory")):
        folder = os.path.join(data, "of-" + name)
        os.mkdir(folder)
        make(os.path.join(folder, name))
        with open(os.path.join(folder, "clock"), "w"):
            pass   # it was in use
        with Daemon(folder) as daemon:
            refused(daemon, os.path.join(folder, name), word)


def port_in_use(data):
    for taken in (0, 1):
        holder = socket.socket()
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        ports = free_ports(2)
        ports[taken] = holder.getsockname()[1]
        with Daemon(os.path.join(data, str(taken)), ports=ports) as daemon:
            refused(daemon, str(ports[taken]), "in use", ("amqp_port", "http_port")[taken])
        holder.close()


def sigterm_says_goodbye(data):
    never = ("--handshake-timeout-ms", "600000", "--goodbye-timeout-ms", "600000")   # who waits for one of them is seen
    with Daemon(data, *never) as daemon:
        daemon.ready()
        connection = daemon.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        channel.basic_publish("", "kept", b"m", pika.BasicProperties(delivery_mode=2))
        idle = socket.create_connection(("127.0.0.1", daemon.amqp))   # says nothing: must not hold up the stop
        began = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        try:
            while time.monotonic() - began < DEADLINE_S:
                connection.process_data_events(time_limit=0.2)
            raise Fail("the connection is still open")
        except pika.exceptions.ConnectionClosedByBroker as error:
            check(error.reply_code == 320, "close code %d" % error.reply_code)
        check(daemon.end() == 0, "exit status, after: %s" % daemon.errors()[-300:])
        idle.close()
    with Daemon(data) as daemon:
        daemon.ready()
        method, _, body = daemon.connect().channel().basic_get("kept", auto_ack=True)
        check(method is not None and body == b"m", "the message is gone after the restart")
        check(daemon.end(signal.SIGINT) == 0, "SIGINT is no clean stop")


def a_client_that_does_not_answer(data):
    """It has a connection open and never reads: the stop waits for it, but not for ever; a second signal cuts it short."""
    with Daemon(data) as daemon:
        daemon.ready()
        connection = daemon.connect()
        daemon.process.send_signal(signal.SIGTERM)
        status = daemon.end()   # nobody drives `connection`: close-ok never comes
        check(status == 0, "exit status %d: %s" % (status, daemon.errors()[-300:]))
        del connection
    with Daemon(data, "--goodbye-timeout-ms", "600000") as daemon:
        daemon.ready()
        connection = daemon.connect()
        daemon.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + DEADLINE_S
        while "stopping" not in daemon.errors():
            check(time.monotonic() < deadline, "it does not stop")
            select.select([], [], [], 0.02)
        check(daemon.end(signal.SIGTERM) == 1, "a second signal did not end it with 1")
        del connection


def deliveries_out_at_a_stop_count(data):
    """Retry-spec 16, both for a client that answers connection.close and for one that does not."""
    with Daemon(data) as daemon:
        daemon.ready()
        connection = daemon.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("out", durable=True, arguments={"x-delayed-retry-min": 3600000})
        channel.basic_publish("", "out", b"m", pika.BasicProperties(delivery_mode=2))
        connection.close()
    # Killed with nothing out: the counter is still 0. Then each clean stop raises it.
    for expected, answers in ((0, True), (1, False), (2, True)):
        with Daemon(data) as daemon:
            daemon.ready()
            connection = daemon.connect()
            method, properties, body = connection.channel().basic_get("out")
            check(method is not None and body == b"m", "the message is gone")
            count = (properties.headers or {}).get("x-delivery-count", 0)
            check(count == expected, "x-delivery-count %d, expected %d" % (count, expected))
            daemon.process.send_signal(signal.SIGTERM)
            if answers:
                try:
                    deadline = time.monotonic() + DEADLINE_S
                    while time.monotonic() < deadline:
                        connection.process_data_events(time_limit=0.2)
                except pika.exceptions.ConnectionClosedByBroker:
                    pass
            check(daemon.end() == 0, "no clean stop: %s" % daemon.errors()[-300:])
            del connection


def hangup_reloads_the_log_level(data):
    path = os.path.join(data, "t.toml")
    with open(path, "w") as file:
        file.write('log_level = "info"\n')
    with Daemon(data, "--config", path) as daemon:
        daemon.ready()
        with open(path, "w") as file:
            file.write('log_level = "debug"\nworkers = 3\n')
        daemon.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + DEADLINE_S
        while "warning main: SIGHUP: workers has another value now: that takes a restart" not in daemon.errors():
            check(time.monotonic() < deadline, "nothing said: %r" % daemon.errors()[-300:])
            select.select([], [], [], 0.02)
        check("log level debug" in daemon.errors(), "not read: %r" % daemon.errors()[-300:])
        check(daemon.connect().is_open, "no connection after SIGHUP")
        check(daemon.end(signal.SIGTERM) == 0, "no clean stop")


def memory_alarm(data):
    with Daemon(data, "--memory-limit-bytes", "1") as daemon:
        daemon.ready()
        connection = daemon.connect()
        told = []
        connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
        connection.channel().basic_publish("", "nowhere", b"m")
        deadline = time.monotonic() + DEADLINE_S
        while not told:
            check(time.monotonic() < deadline, "no connection.blocked")
            connection.process_data_events(time_limit=0.2)
        check("memory" in told[0], "reason %r" % told[0])
        check(daemon.end(signal.SIGTERM) == 0, "no clean stop")


def the_api_tells_the_listeners(data):
    metrics = free_ports(1)[0]
    with Daemon(data, "--metrics-port", str(metrics)) as daemon:
        line = daemon.ready()
        check("metrics 127.0.0.1:%d" % metrics in line, line)
        check(str(daemon.amqp) in line and str(daemon.http) in line and data in line, line)
        request = urllib.request.Request("http://127.0.0.1:%d/api/overview" % daemon.http,
                                         headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
        overview = json.load(urllib.request.urlopen(request, timeout=DEADLINE_S))
        ports = {listener["port"] for listener in overview["listeners"]}
        check({daemon.amqp, daemon.http, metrics} <= ports, "listeners %s" % overview["listeners"])
        check(daemon.end(signal.SIGTERM) == 0, "no clean stop")


def program_without_a_broker(_):
    for flag in ("--version", "--help", "--print-config"):
        done = subprocess.run([PROGRAM, flag], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE_S)
        check(done.returncode == 0 and done.stdout and not done.stderr, "%s: %r" % (flag, done))


CHECKS = (
    ("--version, --help and --print-config need no broker", program_without_a_broker),
    ("a bad setting is one line and status 2", bad_settings),
    ("a data directory in use is one line and status 2", data_directory_in_use),
    ("what of a data directory cannot be had is named", data_directory_that_cannot_be_had),
    ("a port in use is one line and status 2", port_in_use),
    ("SIGTERM: 320 to the clients, all written, status 0", sigterm_says_goodbye),
    ("a client that does not answer delays the stop only so long", a_client_that_does_not_answer),
    ("deliveries that are out at a clean stop count", deliveries_out_at_a_stop_count),
    ("SIGHUP reads the log level again", hangup_reloads_the_log_level),
    ("over memory_limit_bytes publishers are told that they are blocked", memory_alarm),
    ("the API tells the listeners", the_api_tells_the_listeners),
)


def main():
    failed = 0
    for name, run in CHECKS:
        data = tempfile.mkdtemp()
        try:
            run(data)
            print("PASS daemon: %s" % name, flush=True)
        except Exception as error:  # whatever it is, it is this check's verdict
            failed += 1
            print("FAIL daemon: %s: %s %s" % (name, type(error).__name__, error), flush=True)
        shutil.rmtree(data, ignore_errors=True)
    return 1 if failed else 0


sys.exit(main())
