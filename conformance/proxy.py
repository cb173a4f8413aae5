#!/usr/bin/python3
"""The PROXY protocol, versions 1 and 2, on AMQP listeners, with brokers of its own: who the client is, byte by byte, what is
no such header, and who may send one.
"""
import json
import os
import re
import socket
import ssl
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, free_ports, scratch  # noqa: E402
from certificates import Authority  # noqa: E402
from proxy_headers import BAD, GOOD, START, tcp4, tcp6, v2  # noqa: E402
from report import Report, check  # noqa: E402
from wire_client import Client  # noqa: E402
from wire import Gone  # noqa: E402

DEADLINE_S = 60
TRUSTED = ("--proxy-protocol-trusted-sources", "10.0.0.0/8, 127.0.0.0/8", "--default-user-loopback-only", "false")


def connections(one):
    request = urllib.request.Request("http://127.0.0.1:%d/api/connections" % one.http,
                                     headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    return json.loads(urllib.request.urlopen(request, timeout=DEADLINE_S).read())


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
            before = one.log_count("bad PROXY header: .*" + why)
            with dial(one) as s:
                s.sendall(header + START)
                got = ended(s)
            check(got == b"", "%r was answered with %r" % (header, got))
            one.logged(r"127\.0\.0\.1:\d+ refused: bad PROXY header: .*" + why, before + 1)
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
        one.logged("refused: no handshake within handshake_timeout_ms")
        check(one.stop() == 0, "no clean stop")


def not_from_others():
    with scratch() as folder, Broker(folder, "--proxy-protocol-trusted-sources", "10.0.0.0/8,::1") as one:
        for n, (_, header, _) in enumerate(GOOD):
            with dial(one) as s:
                s.sendall(header + START)
                check(ended(s) == b"", "it was answered")
            one.logged(r"127\.0\.0\.1:\d+ refused: a PROXY header from an address that is not in "
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
                one.logged("log-in of user 'guest' from %s refused: it may log in from this machine only" % source)
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
            one.logged(r"192\.0\.2\.7:51000 refused: TLS handshake failed")
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
            one.logged(re.escape(bad) + ": no log-in from there is heard for a while: 5 have failed")
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
