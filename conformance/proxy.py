#!/usr/bin/python3
"""The PROXY protocol, versions 1 and 2, on AMQP listeners, with brokers of its own: who the client is, byte by byte, what is
no such header, and who may send one.
"""
import json
import os
import re
import select
import socket
import ssl
import struct
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, free_ports, scratch  # noqa: E402
from certificates import Authority  # noqa: E402
from report import Report, check  # noqa: E402
from wire_client import Client  # noqa: E402
from wire import Gone  # noqa: E402

DEADLINE_S = 20
START = b"AMQP\0\0\x09\x01"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
TRUSTED = ("--proxy-protocol-trusted-sources", "10.0.0.0/8, 127.0.0.0/8", "--default-user-loopback-only", "false")


def v2(family, addresses, command=1, more=b"", length=None):
    body = addresses + more
    return SIGNATURE + struct.pack(">BBH", 0x20 | command, family, len(body) if length is None else length) + body


def tcp4(source, destination, source_port, destination_port):
    return socket.inet_aton(source) + socket.inet_aton(destination) + struct.pack(">HH", source_port, destination_port)


def tcp6(source, destination, source_port, destination_port):
    return (socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination) +
            struct.pack(">HH", source_port, destination_port))


FIELDS = b"\x02\0\x0bhost.exampl" + b"\x04\0\x05\0\0\0\0\0"
# What it is called, its bytes, and the client's address and port (None: the socket's own).
GOOD = (
    ("1, TCP4", b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 5672\r\n", ("192.0.2.7", 51000)),
    ("1, TCP6", b"PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n", ("2001:db8::7", 1)),
    ("1, the longest", b"PROXY TCP6 " + b" ".join([b"ffff:f:f:f:f:f:f:ffff"] * 2) + b" 65535 65535\r\n",
     ("ffff:f:f:f:f:f:f:ffff", 65535)),
    ("1, UNKNOWN", b"PROXY UNKNOWN\r\n", None),
    ("1, UNKNOWN with more", b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    ("2, TCP4", v2(0x11, tcp4("192.0.2.8", "198.51.100.1", 50008, 5672)), ("192.0.2.8", 50008)),
    ("2, TCP6", v2(0x21, tcp6("2001:db8::8", "2001:db8::1", 50009, 5672)), ("2001:db8::8", 50009)),
    ("2, IPv4 within IPv6", v2(0x21, tcp6("::ffff:192.0.2.9", "::1", 50010, 5672)), ("192.0.2.9", 50010)),
    ("2, further fields", v2(0x11, tcp4("192.0.2.8", "198.51.100.1", 50011, 5672), more=FIELDS), ("192.0.2.8", 50011)),
    ("2, LOCAL", v2(0, b"", command=0), None),
    ("2, LOCAL with addresses", v2(0x11, tcp4("192.0.2.8", "198.51.100.1", 1, 2), command=0), None),
    ("2, no family", v2(0, b""), None),
)
BAD = (
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 51000\r\n", "less than a protocol, two addresses and two ports"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 5672 9\r\n", "more than a protocol"),
    (b"PROXY TCP4 192.0.2.7  198.51.100.1 51000 5672\r\n", "more than a protocol"),
    (b"PROXY TCP4 192.0.2.300 198.51.100.1 51000 5672\r\n", "an address that is none of TCP4"),
    (b"PROXY TCP4 2001:db8::7 2001:db8::1 51000 5672\r\n", "an address that is none of TCP4"),
    (b"PROXY TCP6 192.0.2.7 198.51.100.1 51000 5672\r\n", "an address that is none of TCP6"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 5672\r\n", "a port that is not"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 +1 5672\r\n", "a port that is not"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 01 5672\r\n", "a port that is not"),
    (b"PROXY UDP4 192.0.2.7 198.51.100.1 1 5672\r\n", "none of TCP4, TCP6 and UNKNOWN"),
    (b"PROXY \r\n", "none of TCP4, TCP6 and UNKNOWN"),
    (b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 5672\n", "does not end with CRLF"),
    (b"PROXY UNKNOWN " + b"x" * 200, "more than 107 bytes"),
    (b"proxy TCP4 192.0.2.7 198.51.100.1 51000 5672\r\n", "no PROXY header at all"),
    (START, "no PROXY header at all"),
    (b"\x16\x03\x01\x02\0", "no PROXY header at all"),
    (SIGNATURE[:-1] + b"X" + b"\x21\x11\0\x0c" + b"\0" * 12, "no PROXY header at all"),
    (SIGNATURE + b"\x11\x11\0\x0c" + b"\0" * 12, "a version that is not 2"),
    (SIGNATURE + b"\x22\x11\0\x0c" + b"\0" * 12, "neither LOCAL nor PROXY"),
    (v2(0x12, tcp4("192.0.2.8", "198.51.100.1", 1, 2)), "neither TCP over IPv4 nor TCP over IPv6"),
    (v2(0x31, b"\0" * 216), "neither TCP over IPv4 nor TCP over IPv6"),
    (v2(0x11, b"\0" * 11), "less bytes than its addresses need"),
    (v2(0x21, b"\0" * 12), "less bytes than its addresses need"),
    (v2(0x11, tcp4("192.0.2.8", "198.51.100.1", 1, 2), length=65535), "more than 4096 bytes"),
)


def connections(one):
    request = urllib.request.Request("http://127.0.0.1:%d/api/connections" % one.http,
                                     headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    return json.loads(urllib.request.urlopen(request, timeout=DEADLINE_S).read())


def log_text(one):
    with open(one.log_path, errors="replace") as log:
        return log.read()


def logged(one, pattern, count=1):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if len(re.findall(pattern, log_text(one))) >= count:
            return
        select.select([], [], [], 0.05)
    check(False, "the log has no %r: %s" % (pattern, one.log_end(5)))


def ended(s):
    """What comes until the broker closes."""
    got = b""
    try:
        while part := s.recv(4096):
            got += part
    except ConnectionResetError:
        pass
    return got


def dial(one, port=None):
    s = socket.create_connection(("127.0.0.1", port or one.amqp), DEADLINE_S)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def who_the_client_is():
    with scratch() as folder, Broker(folder, *TRUSTED) as one:
        for name, header, address in GOOD:
            c = Client(one.amqp, before=header)
            own = c.s.getsockname()
            c.sync()
            expected = address or own
            listed = {(shown["peer_host"], shown["peer_port"]): shown["name"] for shown in connections(one)}
            check(expected in listed, "%s: %s" % (name, listed))
            check(listed[expected].startswith("%s:%d -> " % expected), "%s: %s" % (name, listed))
            c.close()
        check(one.stop() == 0, "no clean stop")


def cut_anywhere():
    """Each header in two parts at every place, the second with the beginning of AMQP behind it; and byte by byte."""
    with scratch() as folder, Broker(folder, *TRUSTED) as one:
        for name, header, _ in GOOD:
            stream = header + START
            cuts = [[stream[:n], stream[n:]] for n in range(1, len(header) + 1)]
            cuts.append([stream[n:n + 1] for n in range(len(stream))])
            for parts in cuts:
                with dial(one) as s:
                    for part in parts:
                        s.sendall(part)
                    check(s.recv(7)[:1] == b"\x01", "%s, cut at %d: no connection.start" % (name, len(parts[0])))
        check(one.stop() == 0, "no clean stop")


def what_is_no_such_header():
    with scratch() as folder, Broker(folder, *TRUSTED) as one:
        for header, why in BAD:
            before = len(re.findall("bad PROXY header: .*" + why, log_text(one)))
            with dial(one) as s:
                s.sendall(header + START)
                got = ended(s)
            check(got == b"", "%r was answered with %r" % (header, got))
            logged(one, r"127\.0\.0\.1:\d+ refused: bad PROXY header: .*" + why, before + 1)
        Client(one.amqp, before=GOOD[0][1]).close()
        check(one.stop() == 0, "no clean stop")


def cut_off_or_never_whole():
    with scratch() as folder, Broker(folder, *TRUSTED, "--handshake-timeout-ms", "400") as one:
        for _, header, _ in GOOD:
            for n in (1, 5, 6, 12, 15, len(header) - 1):
                dial(one).close()
                with dial(one) as s:
                    s.sendall(header[:n])
                    s.shutdown(socket.SHUT_WR)
                    check(ended(s) == b"", "an answer to half a header")
        began = time.monotonic()
        with dial(one) as s:
            s.sendall(GOOD[0][1][:-1])
            check(ended(s) == b"", "an answer")
        check(time.monotonic() - began >= 0.4, "closed early")
        logged(one, "refused: no handshake within handshake_timeout_ms")
        check(one.stop() == 0, "no clean stop")


def not_from_others():
    with scratch() as folder, Broker(folder, "--proxy-protocol-trusted-sources", "10.0.0.0/8,::1") as one:
        for n, (_, header, _) in enumerate(GOOD):
            with dial(one) as s:
                s.sendall(header + START)
                check(ended(s) == b"", "it was answered")
            logged(one, r"127\.0\.0\.1:\d+ refused: a PROXY header from an address that is not in "
                        "proxy_protocol_trusted_sources", n + 1)
        c = Client(one.amqp)   # who comes without one is served as ever
        check({s["peer_host"] for s in connections(one)} == {"127.0.0.1"}, "who is it?")
        c.close()
        check(one.stop() == 0, "no clean stop")


def off_by_default():
    with scratch() as folder, Broker(folder) as one:
        for _, header, _ in GOOD:
            with dial(one) as s:
                s.sendall(header + START)
                check(ended(s) == START, "not what a stranger to AMQP gets")
        Client(one.amqp).close()
        check(one.stop() == 0, "no clean stop")


def guest_is_where_the_client_is():
    """The default user may only come from this machine: by what the proxy says, not by where the proxy is."""
    with scratch() as folder, Broker(folder, *TRUSTED[:2], "--login-failure-delay-ms", "0") as one:
        for source, good in (("192.0.2.7", False), ("127.0.0.1", True), ("127.9.9.9", True)):
            header = v2(0x11, tcp4(source, "198.51.100.1", 50000, 5672))
            try:
                Client(one.amqp, before=header).close()
                check(good, "guest came from " + source)
            except Gone:
                check(not good, "guest may come from " + source)
        check(one.stop() == 0, "no clean stop")


def before_tls():
    with scratch() as folder:
        ca = Authority(folder)
        cert, key = ca.sign("server", "server", "DNS:localhost")
        amqps = free_ports(1)[0]
        with Broker(folder, *TRUSTED, "--amqps-port", str(amqps), "--tls-cert", cert, "--tls-key", key) as one:
            for name, header, address in GOOD:
                s = dial(one, amqps)
                s.sendall(header)
                with ssl.create_default_context(cafile=ca.cert).wrap_socket(s, server_hostname="localhost") as secured:
                    secured.sendall(START)
                    check(secured.recv(7)[:1] == b"\x01", "%s: no connection.start" % name)
            with dial(one, amqps) as s:
                s.sendall(GOOD[0][1])
                with ssl.create_default_context().wrap_socket(s, server_hostname="localhost",
                                                              do_handshake_on_connect=False) as secured:
                    try:
                        secured.do_handshake()
                        check(False, "an unknown authority was trusted")
                    except ssl.SSLError:
                        pass
            logged(one, r"192\.0\.2\.7:51000 refused: TLS handshake failed")
            check(one.stop() == 0, "no clean stop")


def failures_are_counted_for_each_client():
    """A cap of 5 failed log-ins a minute: the sixth is refused whatever its password is, but from other addresses not."""
    flags = (*TRUSTED, "--login-failures-per-minute", "5", "--login-failure-delay-ms", "0")

    def comes_in(one, source, password="guest"):
        family = 0x21 if ":" in source else 0x11
        addresses = (tcp6(source, "::1", 1, 2) if ":" in source else tcp4(source, "198.51.100.1", 1, 2))
        try:
            Client(one.amqp, before=v2(family, addresses), password=password).close()
            return True
        except Gone:
            return False
    with scratch() as folder, Broker(folder, *flags) as one:
        for bad, same, other in (("192.0.2.1", "192.0.2.1", "192.0.2.2"),
                                 ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1")):
            for n in range(5):
                check(comes_in(one, same), "%s is refused after %d failures" % (same, n))
                check(not comes_in(one, bad, "wrong%d" % n), "a wrong password")
            logged(one, re.escape(bad) + ": no log-in from there is heard for a while: 5 have failed")
            check(not comes_in(one, same), "%s is not refused" % same)
            check(comes_in(one, other), "%s is refused" % other)
        for n in range(20):   # this machine's own clients are not counted
            check(not comes_in(one, "127.0.0.1", "wrong"), "a wrong password")
        check(comes_in(one, "127.0.0.1"), "this machine is refused")
        check(one.stop() == 0, "no clean stop")


report = Report("proxy")
report.run([(f.__name__.replace("_", " "), f) for f in (
    who_the_client_is, cut_anywhere, what_is_no_such_header, cut_off_or_never_whole, not_from_others, off_by_default,
    guest_is_where_the_client_is, before_tls, failures_are_counted_for_each_client)])
report.end()
