"""A broker of a test's own: build/release/tarrymq (or $TARRYMQ) on free ports, with a data directory that outlives restarts."""
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from ports import free_ports  # noqa: E402
from report import check  # noqa: E402

DEADLINE_S = 60
PROGRAM = os.environ.get("TARRYMQ") or os.path.join(ROOT, "build", "release", "tarrymq")


alive = set()   # processes, for who must end at once


class DidNotStart(Exception):
    pass


class Broker:
    """Use as a context: started on entry, and killed on exit if it was not stopped before."""

    def __init__(self, directory, *flags):
        self.directory, self.flags = directory, flags
        self.amqp, self.http = free_ports(2)
        self.log_path = os.path.join(directory, "broker.log")
        self.process = None

    @property
    def url(self):
        return "amqp://guest:guest@127.0.0.1:%d/%%2F" % self.amqp

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--data-dir", os.path.join(self.directory, "data"), "--amqp-port", str(self.amqp),
                 "--http-port", str(self.http), *self.flags],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        alive.add(self.process)
        guard = threading.Timer(DEADLINE_S, self.process.kill)
        guard.start()
        line = self.process.stdout.readline().decode(errors="replace")   # ends with the process, or by the guard
        guard.cancel()
        if not re.search(r" ready: ", line):
            self.kill()
            raise DidNotStart("the broker does not start: " + self.log_end())

    def stop(self):
        """A clean stop; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -1
        finally:
            self.process.stdout.close()
            alive.discard(self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        alive.discard(self.process)

    def log_end(self, lines=20):
        try:
            with open(self.log_path, errors="replace") as log:
                return "".join(log.readlines()[-lines:])
        except OSError:
            return ""

    def log_count(self, pattern):
        with open(self.log_path, errors="replace") as log:
            return len(re.findall(pattern, log.read()))

    def logged(self, pattern, count=1):
        """Waits until the log has the pattern so many times; Fail if it never does."""
        end = time.monotonic() + DEADLINE_S
        while self.log_count(pattern) < count:
            check(time.monotonic() < end, "the log has no %r: %s" % (pattern, self.log_end(5)))
            select.select([], [], [], 0.05)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


def scratch():
    return tempfile.TemporaryDirectory(prefix="tarrymq-conformance-")


def in_folder(check):
    """`check(folder)` as a function without arguments: each call has a scratch folder of its own."""
    def call():
        with scratch() as folder:
            check(folder)
    return call
