#!/usr/bin/python3
"""The PROXY protocol, versions 1 and 2, on the listeners of the API and the pages, with brokers of its own: as proxy.py has it
for AMQP.
"""
import base64
import os
import re
import socket
import ssl
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, free_ports, scratch  # noqa: E402
from certificates import Authority  # noqa: E402
from proxy_headers import BAD, GOOD, tcp4, tcp6, v2  # noqa: E402
from report import Report, check  # noqa: E402
from wire_client import Client  # noqa: E402
from wire import Gone  # noqa: E402

DEADLINE_S = 60
TRUSTED = ("--http-proxy-protocol-trusted-sources", "10.0.0.0/8, 127.0.0.0/8", "--login-failure-delay-ms", "0")
FROM_AFAR = ("--default-user-loopback-only", "false")


def request(path="/api/whoami", password="guest"):
    word = base64.b64encode(b"guest:" + password.encode()).decode()
    return ("GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %s\r\n\r\n" % (path, word)).encode()


def dial(one, port=None):
    s = socket.create_connection(("127.0.0.1", port or one.http), DEADLINE_S)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def answer(s):
    """(status, body) of the next answer; None when the broker closed instead."""
    got = b""
    while b"\r\n\r\n" not in got:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            check(got == b"", "half an answer: %r" % got)
            return None
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
    while len(body) < length:
        part = s.recv(65536)
        check(part, "half a body")
        body += part
    check(len(body) == length, "more than one answer")
    return int(head.split()[1]), body


def status(one, before, password="guest"):
    with dial(one) as s:
        s.sendall(before + request(password=password))
        return answer(s)[0]


def here(address):
    return address is None or address[0].startswith("127.")


def the_default_user_is_where_the_client_is():
    """By what the proxy says, not by where the proxy is; for each request of the connection."""
    with scratch() as folder, Broker(folder, *TRUSTED) as one:
        for name, header, address in (*GOOD, ("this machine", b"PROXY TCP4 127.9.9.9 127.0.0.1 1 2\r\n", ("127.9.9.9", 1))):
            with dial(one) as s:
                s.sendall(header)
                for _ in range(3):
                    s.sendall(request())
                    got = answer(s)
                    check(got and got[0] == (200 if here(address) else 401), "%s: %s" % (name, got))
        check(one.stop() == 0, "no clean stop")


def cut_anywhere():
    """Each header in two parts at every place, the second with a request behind it; and byte by byte."""
    with scratch() as folder, Broker(folder, *TRUSTED, *FROM_AFAR) as one:
        for name, header, _ in GOOD:
            stream = header + request()
            cuts = [[stream[:n], stream[n:]] for n in range(1, len(header) + 1)]
            cuts.append([stream[n:n + 1] for n in range(len(stream))])
            for parts in cuts:
                with dial(one) as s:
                    for part in parts:
                        s.sendall(part)
                    got = answer(s)
                    check(got and got[0] == 200, "%s, cut at %d: %s" % (name, len(parts[0]), got))
        check(one.stop() == 0, "no clean stop")


def what_is_no_such_header():
    with scratch() as folder, Broker(folder, *TRUSTED) as one:
        for header, why in (*BAD, (request(), "no PROXY header at all")):
            before = one.log_count("bad PROXY header: .*" + why)
            with dial(one) as s:
                s.sendall(header + request())
                check(answer(s) is None, "%r was answered" % header)
            one.logged(r"127\.0\.0\.1 refused: bad PROXY header: .*" + why, before + 1)
        check(status(one, b"PROXY UNKNOWN\r\n") == 200, "no answer afterwards")
        check(one.stop() == 0, "no clean stop")


def cut_off():
    with scratch() as folder, Broker(folder, *TRUSTED) as one:
        for _, header, _ in GOOD:
            for n in (1, 5, 6, 12, 15, len(header) - 1):
                dial(one).close()
                with dial(one) as s:
                    s.sendall(header[:n])
                    s.shutdown(socket.SHUT_WR)
                    check(answer(s) is None, "an answer to half a header")
        half = [dial(one) for _ in range(3)]   # they do not keep it from stopping
        half[0].sendall(GOOD[0][1][:7])
        check(one.stop() == 0, "no clean stop")
        for s in half:
            s.close()


def not_from_others():
    for flags in (("--http-proxy-protocol-trusted-sources", "10.0.0.0/8,::1"), ()):
        with scratch() as folder, Broker(folder, *flags) as one:
            for n, (name, header, _) in enumerate(GOOD):
                with dial(one) as s:
                    s.sendall(header + request())
                    got = answer(s)
                    check(got and got[0] == 400 and b"http_proxy_protocol_trusted_sources" in got[1], "%s: %s" % (name, got))
                    check(answer(s) is None, "it goes on")
                one.logged(r"127\.0\.0\.1 refused: a PROXY header from an address that is not in "
                           "http_proxy_protocol_trusted_sources", n + 1)
            check(status(one, b"") == 200, "who comes without one is not served")
            check(one.stop() == 0, "no clean stop")


def each_listener_has_its_own():
    """The setting of AMQP is none of HTTP's, nor the other way round."""
    header = GOOD[0][1]
    with scratch() as folder, Broker(folder, *TRUSTED, *FROM_AFAR) as one:
        Client(one.amqp).close()
        check(status(one, header) == 200, "HTTP")
        check(one.stop() == 0, "no clean stop")
    with scratch() as folder, Broker(folder, "--proxy-protocol-trusted-sources", "127.0.0.0/8", *FROM_AFAR) as one:
        Client(one.amqp, before=header).close()
        check(status(one, b"") == 200, "HTTP")
        check(one.stop() == 0, "no clean stop")


def before_tls():
    with scratch() as folder:
        ca = Authority(folder)
        cert, key = ca.sign("server", "server", "DNS:localhost")
        https = free_ports(1)[0]
        with Broker(folder, *TRUSTED, "--https-port", str(https), "--tls-cert", cert, "--tls-key", key) as one:
            for name, header, address in GOOD:
                s = dial(one, https)
                for n in range(0, len(header), 7):
                    s.sendall(header[n:n + 7])
                with ssl.create_default_context(cafile=ca.cert).wrap_socket(s, server_hostname="localhost") as secured:
                    for _ in range(2):
                        secured.sendall(request())
                        got = answer(secured)
                        check(got and got[0] == (200 if here(address) else 401), "%s: %s" % (name, got))
            # TLS at once, and a header within TLS
            with dial(one, https) as s:
                with ssl.create_default_context(cafile=ca.cert).wrap_socket(s, server_hostname="localhost",
                                                                            do_handshake_on_connect=False) as secured:
                    try:
                        secured.do_handshake()
                        check(False, "TLS without a header")
                    except (ssl.SSLError, ConnectionError):
                        pass
            one.logged(r"127\.0\.0\.1 refused: bad PROXY header: no PROXY header at all")
            s = dial(one, https)
            s.sendall(GOOD[0][1])
            with ssl.create_default_context(cafile=ca.cert).wrap_socket(s, server_hostname="localhost") as secured:
                secured.sendall(GOOD[1][1] + request())
                check(answer(secured)[0] == 400, "a second header")
            check(one.stop() == 0, "no clean stop")


def failures_are_counted_for_each_client():
    """Of HTTP and AMQP together. A cap of 5 a minute: the sixth is refused whatever its password is; from elsewhere it is not."""
    flags = (*TRUSTED, *FROM_AFAR, "--proxy-protocol-trusted-sources", "127.0.0.0/8", "--login-failures-per-minute", "5")

    def header(source):
        six = ":" in source
        return v2(0x21 if six else 0x11, tcp6(source, "::1", 1, 2) if six else tcp4(source, "198.51.100.1", 1, 2))

    def by_amqp(one, source, password="guest"):
        try:
            Client(one.amqp, before=header(source), password=password).close()
            return True
        except Gone:
            return False
    with scratch() as folder, Broker(folder, *flags) as one:
        for bad, same, other in (("192.0.2.1", "192.0.2.1", "192.0.2.2"),
                                 ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1")):
            for n in range(5):
                check(status(one, header(same)) == 200, "%s is refused after %d failures" % (same, n))
                if n == 2:
                    check(not by_amqp(one, bad, "wrong"), "a wrong password")
                else:
                    check(status(one, header(bad), "wrong%d" % n) == 401, "a wrong password")
            one.logged(re.escape(bad) + ": no log-in from there is heard for a while: 5 have failed")
            check(status(one, header(same)) == 401, "%s is not refused" % same)
            check(not by_amqp(one, same), "%s is not refused by AMQP" % same)
            check(status(one, header(other)) == 200, "%s is refused" % other)
        for _ in range(20):   # this machine's own clients are not counted
            check(status(one, header("127.0.0.1"), "wrong") == 401, "a wrong password")
        check(status(one, header("127.0.0.1")) == 200, "this machine is refused")
        check(one.stop() == 0, "no clean stop")


report = Report("proxy-http")
report.run([(f.__name__.replace("_", " "), f) for f in (
    the_default_user_is_where_the_client_is, cut_anywhere, what_is_no_such_header, cut_off, not_from_others,
    each_listener_has_its_own, before_tls, failures_are_counted_for_each_client)])
report.end()
