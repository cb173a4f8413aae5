"""A broker of a test's own: starts, kills and measures it. Standard library only; Linux's /proc."""
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time

from ports import free_port
from wire import Gone, Wire


def end_with_parent():
    """In the child: SIGKILL when the test that started it ends, however that happens."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Broker:
    def __init__(self, binary, args=(), environment=None):
        self.binary, self.args, self.environment = os.path.abspath(binary), list(args), environment
        self.dir = tempfile.mkdtemp(prefix="tarrymq-test-")
        self.port, self.http = free_port(), free_port()
        self.p = None

    def start(self, seconds=60):
        """Returns once clients may connect."""
        command = [self.binary, "--data-dir", os.path.join(self.dir, "data"), "--amqp-port", str(self.port), "--http-port",
                   str(self.http)] + self.args
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      preexec_fn=end_with_parent, env=dict(os.environ, **(self.environment or {})))
        end = time.monotonic() + seconds
        while True:
            try:
                Wire(self.port).close()
                return self
            except Gone:
                if self.p.poll() is not None:
                    raise SystemExit("FAIL the broker ended by itself with %s: %s" % (self.p.returncode, self.log()[-300:]))
                if time.monotonic() > end:
                    raise SystemExit("FAIL the broker was not up after %d s" % seconds)
                time.sleep(0.02)

    def log(self):
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            return f.read()

    def kill(self):
        """'' if that was its end; else how it had ended by itself before (a sanitizer's finding, a crash)."""
        self.p.send_signal(signal.SIGKILL)
        status = self.p.wait()
        return "" if status == -signal.SIGKILL else "the broker ended by itself with %d: %s" % (status, self.log()[-2000:])

    def stop(self, seconds=60):
        self.p.send_signal(signal.SIGTERM)
        return self.p.wait(seconds)

    def end(self):
        if self.p and self.p.poll() is None:
            self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    # -- What it uses

    def status(self, key):
        with open("/proc/%d/status" % self.p.pid) as f:
            for line in f:
                if line.startswith(key + ":"):
                    return int(line.split()[1])
        return 0

    def rss_mib(self):
        return self.status("VmRSS") / 1024.0

    def peak_mib(self):
        return self.status("VmHWM") / 1024.0

    def threads(self):
        return self.status("Threads")

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.p.pid))

    def unread_bytes(self):
        """What clients have sent and it has not read from its sockets yet."""
        unread = 0
        with open("/proc/%d/net/tcp" % self.p.pid) as f:
            for line in f.readlines()[1:]:
                _, local, _, state, queues = line.split()[:5]
                if int(local.split(":")[1], 16) == self.port and state != "0A":   # not what waits to be accepted
                    unread += int(queues.split(":")[1], 16)
        return unread

    def files(self):
        return sum(len(names) for _, _, names in os.walk(os.path.join(self.dir, "data")))

    def disk_mib(self):
        total = 0
        for folder, _, names in os.walk(os.path.join(self.dir, "data")):
            for name in names:
                try:
                    total += os.stat(os.path.join(folder, name)).st_blocks * 512
                except OSError:
                    pass
        return total / 1048576.0
