#!/usr/bin/python3
"""Clients that mean harm, or are broken: the broker's memory stays bounded, others are undisturbed, and what was hit says
so and counts (tarrymq_limit_hits_total). With brokers of its own; a few thousand sockets on loopback.

Each flood runs while a well-behaved client publishes with confirms and consumes; it must get every message, none of them
later than a generous bound. Memory is the broker's resident set.
"""
import os
import re
import select
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, free_ports, in_folder  # noqa: E402
from certificates import Authority  # noqa: E402
from report import Report, check  # noqa: E402
from wire_client import Client, publish_args, queue_declare  # noqa: E402
from wire import Confirm, Delivery, Gone, long, short, table  # noqa: E402

DEADLINE_S = 60
LATE_S = 5.0           # generous: the machine may be busy with other things
MB = 1 << 20
HEADER = b"AMQP\0\0\x09\x01"


def frame(kind, channel, payload):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel, cls, mid, args=b""):
    return frame(1, channel, struct.pack(">HH", cls, mid) + args)


def resident(broker):
    with open("/proc/%d/status" % broker.process.pid) as file:
        return int(re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M).group(1)) << 10


def hits(broker, limit):
    request = urllib.request.Request("http://127.0.0.1:%d/metrics" % broker.http, headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        found = re.search(r'^tarrymq_limit_hits_total\{limit="%s"\} (\S+)' % limit, answer.read().decode(), re.M)
    check(found, "no counter of %s in /metrics" % limit)
    return int(float(found.group(1)))

# A sanitizer's memory is in the broker's: what it may take is not what these checks are for.
MEMORY_FACTOR = int(os.environ.get("MEMORY_FACTOR", "1"))


def wait_for(what, condition):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    check(False, "not in %d s: %s" % (DEADLINE_S, what))


class Neighbour:
    """Use as a context around a flood: one message at a time, there and back, confirmed; the worst of it is bounded."""

    def __init__(self, broker):
        self.broker, self.stopping, self.worst, self.rounds, self.error = broker, threading.Event(), 0.0, 0, None
        self.client = Client(broker.amqp)
        self.queue = self.client.temp()
        self.client.confirm(1)
        self.client.consume(1, self.queue, no_ack=True)
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stopping.is_set():
                began = time.monotonic()
                self.client.send("", self.queue, b"%d" % self.rounds)
                self.client.next(Confirm)
                check(self.client.next(Delivery).body == b"%d" % self.rounds, "not what was published")
                self.worst = max(self.worst, time.monotonic() - began)
                self.rounds += 1
        except Exception as error:   # told at the end
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stopping.set()
        self.thread.join()
        if kind is None:
            check(not self.error, "the neighbour: %s" % self.error)
            check(self.rounds > 0 and self.worst < LATE_S, "the neighbour: %d rounds, the worst took %.1f s" % (self.rounds, self.worst))


def bounded(broker, before, most, what):
    most *= MEMORY_FACTOR
    now = resident(broker)
    check(now - before < most, "%s took %d MB, expected less than %d" % (what, (now - before) // MB, most // MB))


def gone(sock):
    """Closed by the other side; what comes before is thrown away."""
    sock.settimeout(DEADLINE_S)
    try:
        while sock.recv(65536):
            pass
        return True
    except ConnectionError:
        return True


def logged_in(port, frame_max=131072):
    """A raw socket behind connection.open-ok."""
    s = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
    s.sendall(HEADER + method(0, 10, 11, table({}) + short("PLAIN") + long(b"\0guest\0guest") + short("en_US")))
    s.settimeout(DEADLINE_S)
    expect(s, 10, 10), expect(s, 10, 30)
    s.sendall(method(0, 10, 31, struct.pack(">HIH", 0, frame_max, 0)) + method(0, 10, 40, short("/") + short("") + b"\0"))
    expect(s, 10, 41)
    return s


def receive(s, size):
    data = b""
    while len(data) < size:
        more = s.recv(size - len(data))
        if not more:
            raise Gone("closed")
        data += more
    return data


def next_method(s):
    while True:
        kind, _, size = struct.unpack(">BHI", receive(s, 7))
        payload = receive(s, size + 1)
        if kind == 1:
            return struct.unpack(">HH", payload[:4]), payload[4:-1]


def expect(s, cls, mid):
    got, args = next_method(s)
    check(got == (cls, mid), "expected %d.%d, got %s %r" % (cls, mid, got, args[:200]))
    return args


def refused(s, code, pattern=""):
    """connection.close (or channel.close) with this code."""
    while True:
        got, args = next_method(s)
        if got in ((10, 50), (20, 40)):
            break
    text = args[3:3 + args[2]].decode()
    check(struct.unpack(">H", args[:2])[0] == code and re.search(pattern, text), "expected %d %r, got %s" % (code, pattern, args))


def half_open(folder):
    with Broker(folder, "--handshake-timeout-ms", "5000") as broker:   # the neighbour must make it, on a busy machine too
        with Neighbour(broker):
            before = resident(broker)
            silent = [socket.create_connection(("127.0.0.1", broker.amqp), DEADLINE_S) for _ in range(1000)]
            bounded(broker, before, 64 * MB, "1000 silent sockets")
            check(all(map(gone, silent)), "a silent socket is still open")
        for s in silent:
            s.close()
        check(hits(broker, "handshake_timeout") >= 1000, "they are not counted")


def slow_handshakes(folder):
    """A byte now and then keeps nobody's place: the time counts from the beginning."""
    with Broker(folder, "--handshake-timeout-ms", "5000") as broker:
        with Neighbour(broker):
            before = resident(broker)
            slow = [socket.create_connection(("127.0.0.1", broker.amqp), DEADLINE_S) for _ in range(200)]
            handshake = HEADER + method(0, 10, 11, table({"x": "y" * 3000}))
            began, left = time.monotonic(), list(slow)
            for at in range(len(handshake)):
                for s in list(left):
                    try:
                        s.send(handshake[at:at + 1])
                    except ConnectionError:
                        left.remove(s)
                if not left:
                    break
                check(time.monotonic() - began < DEADLINE_S, "still open")
                time.sleep(0.05)
            bounded(broker, before, 64 * MB, "200 slow handshakes")
        check(hits(broker, "handshake_timeout") >= 200, "they are not counted")


def too_many(folder):
    with Broker(folder, "--connections-max", "50", "--handshake-timeout-ms", "600000") as broker:
        with Neighbour(broker):
            crowd = [socket.create_connection(("127.0.0.1", broker.amqp), DEADLINE_S) for _ in range(80)]
            wait_for("31 closed", lambda: hits(broker, "connections") >= 31)
            check(hits(broker, "connections") == 31, "%d were refused, expected 31" % hits(broker, "connections"))
        for s in crowd:
            s.close()
        wait_for("room again", lambda: try_client(broker))
        broker.logged("connections_max is 50")


def try_client(broker):
    try:
        return Client(broker.amqp)
    except Gone:
        return None


def giant_frames(folder):
    """A frame is judged by its head: nothing of its size is set aside."""
    with Broker(folder) as broker:
        with Neighbour(broker):
            before, counted = resident(broker), hits(broker, "frame_max")
            for size in (4097, 131073, 1 << 30, 0xFFFFFFFF):   # before the log-in: more than 4096, eight bytes over being borne
                s = socket.create_connection(("127.0.0.1", broker.amqp), DEADLINE_S)
                s.sendall(HEADER)
                expect(s, 10, 10)
                s.sendall(struct.pack(">BHI", 1, 0, size) + b"\0" * 100)
                check(gone(s), "still open")
            for size in (131073, 1 << 30, 0xFFFFFFFF):   # behind it: more than was negotiated
                s = logged_in(broker.amqp)
                s.sendall(struct.pack(">BHI", 1, 0, size) + b"\0" * 100)
                refused(s, 501, "frame_max")
            check(hits(broker, "frame_max") == counted + 7, "7 are not counted")
            # A content header that promises more than may come.
            s = logged_in(broker.amqp)
            s.sendall(method(1, 20, 10, b"\0"))
            expect(s, 20, 11)
            s.sendall(method(1, 60, 40, publish_args("", "q")) + frame(2, 1, struct.pack(">HHQH", 60, 0, 1 << 62, 0)))
            refused(s, 406, "message size")
            check(hits(broker, "message_bytes") == 1, "it is not counted")
            bounded(broker, before, 32 * MB, "giant frames")


def deep(depth):
    inner = b""
    for _ in range(depth):
        inner = short("t") + b"F" + long(inner)
    return long(inner)


def tables(folder):
    """Deep ones, and wide ones of the smallest entries there are: nobody who is not logged in gets far with them."""
    with Broker(folder) as broker:
        with Neighbour(broker):
            before = resident(broker)
            s = logged_in(broker.amqp)
            s.sendall(method(1, 20, 10, b"\0"))
            expect(s, 20, 11)
            s.sendall(method(1, 50, 10, b"\0\0" + short("q") + b"\0" + deep(10_000)))
            refused(s, 501, "nested deeper than 64")
            s = logged_in(broker.amqp)
            s.sendall(method(1, 20, 10, b"\0"))
            expect(s, 20, 11)
            header = struct.pack(">HHQH", 60, 0, 1, 0x2000) + deep(10_000)
            s.sendall(method(1, 60, 40, publish_args("", "q")) + frame(2, 1, header))
            refused(s, 501, "nested deeper than 64")
            check(hits(broker, "table_depth") == 2, "they are not counted: %d" % hits(broker, "table_depth"))
            # Before the log-in a frame has 4096 bytes: that many entries fit.
            bomb = long(b"\x01aV" * 1300)
            crowd = []
            for _ in range(300):
                s = socket.create_connection(("127.0.0.1", broker.amqp), DEADLINE_S)
                s.sendall(HEADER + method(0, 10, 11, bomb + short("PLAIN") + long(b"\0guest\0wrong") + short("en_US")))
                crowd.append(s)
            bounded(broker, before, 256 * MB, "300 table bombs before the log-in")
            check(all(map(gone, crowd)), "still open")
            # Behind it a header of 40,000 entries is a message like another, but stored as it came.
            s = logged_in(broker.amqp)
            s.sendall(method(1, 20, 10, b"\0"))
            expect(s, 20, 11)
            s.sendall(method(1, 50, 10, b"\0\0" + short("bombs") + b"\0" + table({})))
            expect(s, 50, 11)
            header = frame(2, 1, struct.pack(">HHQH", 60, 0, 1, 0x2000) + long(b"\x01aV" * 40_000))
            for _ in range(100):
                s.sendall(method(1, 60, 40, publish_args("", "bombs")) + header + frame(3, 1, b"m"))
            s.sendall(method(1, 60, 10, struct.pack(">IHB", 0, 0, 0)))
            expect(s, 60, 11)
            bounded(broker, before, 256 * MB, "100 messages of 40,000 headers")


def one_byte_writes(folder):
    with Broker(folder) as broker:
        with Neighbour(broker):
            before = resident(broker)
            client = Client(broker.amqp)
            queue = client.temp()
            client.confirm(1)
            client.send("", queue, b"x" * 6000)
            s = logged_in(broker.amqp)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            body = os.urandom(20_000)
            stream = method(1, 20, 10, b"\0") + method(1, 60, 40, publish_args("", queue)) + \
                frame(2, 1, struct.pack(">HHQH", 60, 0, len(body), 0)) + frame(3, 1, body)
            for at in range(len(stream)):
                s.send(stream[at:at + 1])
            expect(s, 20, 11)
            client.next(Confirm)
            check(client.get(queue).body == b"x" * 6000 and wait_for("it is there", lambda: client.get(queue)).body == body, "another body")
            bounded(broker, before, 32 * MB, "one byte at a time")


def many_channels(folder):
    with Broker(folder, "--channel-max", "65535") as broker:
        with Neighbour(broker):
            before = resident(broker)
            s = logged_in(broker.amqp)
            for first in range(1, 65536, 1000):
                last = min(65536, first + 1000)
                s.sendall(b"".join(method(channel, 20, 10, b"\0") for channel in range(first, last)))
                for _ in range(first, last):
                    expect(s, 20, 11)
            bounded(broker, before, 256 * MB, "65,535 channels")
            s.close()
        client = logged_in(broker.amqp)
        client.close()
    with Broker(folder, "--channel-max", "10") as broker:   # how many, whatever their numbers
        s = logged_in(broker.amqp)
        s.sendall(b"".join(method(channel, 20, 10, b"\0") for channel in range(100, 111)))
        for _ in range(10):
            expect(s, 20, 11)
        refused(s, 530, "channel_max")
        check(hits(broker, "channel_max") == 1, "it is not counted")


def unread(folder):
    """Consumers that never read: what waits for them is bounded, the rest stays in the queue."""
    with Broker(folder, "--durability", "os") as broker:
        with Neighbour(broker) as neighbour:
            client = Client(broker.amqp)
            client.call(1, 50, 10, queue_declare("much", flags=2), (50, 11))
            client.confirm(1)
            for _ in range(2000):
                client.send("", "much", b"x" * 100_000)   # a frame each
            client.sync()
            before = resident(broker)
            deaf = []
            for _ in range(20):
                s = logged_in(broker.amqp)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall(method(1, 20, 10, b"\0") + method(1, 60, 20, b"\0\0" + short("much") + short("deaf") + b"\x02" + table({})))
                deaf.append(s)
            rounds = neighbour.rounds + 500   # turns enough for what would go wrong
            wait_for("the neighbour goes on", lambda: neighbour.rounds >= rounds or neighbour.error)
            bounded(broker, before, 256 * MB, "20 deaf consumers")
            for s in deaf:
                s.close()
        check(broker.stop() == 0, "the end")


def unread_answers(folder):
    """Who asks for more and more and reads nothing is asked for no more."""
    with Broker(folder, "--durability", "os") as broker:
        with Neighbour(broker) as neighbour:
            before = resident(broker)
            s = logged_in(broker.amqp)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = b"x" * 100_000
            returned = method(1, 60, 40, b"\0\0" + short("") + short("nowhere") + b"\1") + \
                frame(2, 1, struct.pack(">HHQH", 60, 0, len(body), 0)) + frame(3, 1, body)
            s.sendall(method(1, 20, 10, b"\0"))
            s.setblocking(False)
            sent, until = 0, neighbour.rounds + 300
            while sent < 300 * MB and neighbour.rounds < until and not neighbour.error:
                try:
                    at = sent % len(returned)
                    sent += s.send(returned[at:])
                    until = neighbour.rounds + 300   # turns enough to take more, if it would
                except BlockingIOError:
                    time.sleep(0.001)
            check(sent < 64 * MB, "it goes on taking what it cannot answer")
            bounded(broker, before, 64 * MB, "a client that does not read")
            s.close()
        check(broker.stop() == 0, "the end")


def http_limits(folder):
    with Broker(folder) as broker:
        with Neighbour(broker):
            def ask(text):
                s = socket.create_connection(("127.0.0.1", broker.http), DEADLINE_S)
                s.sendall(text)
                s.settimeout(DEADLINE_S)
                answer = s.recv(4096)
                s.close()
                return answer.split(b"\r\n")[0]
            before = resident(broker)
            status = ask(b"GET /api/overview HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 40_000 + b"\r\n\r\n")
            check(b" 431 " in status, status)
            status = ask(b"PUT /api/vhosts/x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Length: 99999999999\r\n\r\n")
            check(b" 413 " in status, status)
            check(hits(broker, "http_header") == 1 and hits(broker, "http_body") == 1, "they are not counted")
            crowd = [socket.create_connection(("127.0.0.1", broker.http), DEADLINE_S) for _ in range(1100)]
            poller = select.poll()   # select() stops at descriptor 1024
            for s in crowd:
                poller.register(s, select.POLLIN)
            closed = len(poller.poll(DEADLINE_S * 1000))
            for s in crowd:
                s.close()
            wait_for("room again", lambda: room(broker))
            check(hits(broker, "http_connections") > 0, "%d closed, none counted" % closed)
            bounded(broker, before, 64 * MB, "1100 HTTP connections")


def client_hello():
    """What a client of TLS says first, whole."""
    out = ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


def half_handshakes(folder):
    """More of them than there is room for, on the HTTPS port: who means it is served there and at the other ports."""
    ca = Authority(folder)
    cert, key = ca.sign("server", "server", "DNS:localhost")
    context = ssl.create_default_context(cafile=ca.cert)
    https = free_ports(1)[0]

    def served(secured):
        ask = b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
        s = socket.create_connection(("127.0.0.1", https if secured else broker.http), DEADLINE_S)
        if secured:
            s = context.wrap_socket(s, server_hostname="localhost")
        s.sendall(ask)
        check(b" 200 " in s.recv(65536), "no answer %s TLS" % ("with" if secured else "without"))
        s.close()

    with Broker(folder, "--https-port", str(https), "--tls-cert", cert, "--tls-key", key) as broker:
        with Neighbour(broker):
            before, hello, crowd = resident(broker), client_hello(), []
            for whole in (False, True):   # half of a first word; then a whole one, and silence
                for _ in range(3):
                    for _ in range(200):
                        crowd.append(socket.create_connection(("127.0.0.1", https), DEADLINE_S))
                        crowd[-1].sendall(hello if whole else hello[:len(hello) // 2])
                    served(False)
                    served(True)
            bounded(broker, before, 192 * MB, "1200 half handshakes")
            for s in crowd:
                s.close()
        check(broker.stop() == 0, "no clean stop")


def room(broker):
    try:
        hits(broker, "frame_max")
        return True
    except OSError:
        return False


def main():
    report = Report("floods")
    only = sys.argv[1:]   # words of names; all without
    checks = [("half-open connections", in_folder(half_open)),
              ("slow handshakes", in_folder(slow_handshakes)),
              ("more connections than allowed", in_folder(too_many)),
              ("giant frames and bodies", in_folder(giant_frames)),
              ("deep and wide tables", in_folder(tables)),
              ("one byte a write", in_folder(one_byte_writes)),
              ("65,535 channels", in_folder(many_channels)),
              ("deliveries that nobody reads", in_folder(unread)),
              ("answers that nobody reads", in_folder(unread_answers)),
              ("HTTP: headers, bodies, connections", in_folder(http_limits)),
              ("HTTPS: half handshakes", in_folder(half_handshakes))]
    report.run([c for c in checks if not only or any(word in c[0] for word in only)])
    report.end()


if __name__ == "__main__":
    main()
