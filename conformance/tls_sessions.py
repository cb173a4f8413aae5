#!/usr/bin/python3
"""TLS sessions that are resumed: a client that comes again is spared the signature and keeps its certificate, until the
broker has read its rules anew. With a broker and certificates of its own.
"""
import os
import signal
import socket
import ssl
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import Broker, free_ports, scratch  # noqa: E402
from certificates import Authority  # noqa: E402
from report import Report, check  # noqa: E402

DEADLINE_S = 60
LOCAL = "DNS:localhost,IP:127.0.0.1"
AMQP = b"AMQP\0\0\x09\x01"
HTTP = b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n"
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def context(ca, version, identity=None):
    made = ssl.create_default_context(cafile=ca.cert)
    made.minimum_version = made.maximum_version = version
    if identity:
        made.load_cert_chain(*identity)
    return made


def come(made, port, first, session=None):
    """(answer, whether the session was resumed, the session to come again with)."""
    with made.wrap_socket(socket.create_connection(("127.0.0.1", port), DEADLINE_S), server_hostname="localhost",
                          session=session) as s:
        s.sendall(first)
        answer = s.recv(65536)   # behind it the tickets of TLS 1.3 have been read
        check(answer, "closed")
        return answer, s.session_reused, s.session


def resumed(folder):
    ca = Authority(folder)
    cert, key = ca.sign("server", "server", LOCAL)
    client = ca.sign("client", "guest")
    amqps, https = free_ports(2)
    with Broker(folder, "--amqps-port", str(amqps), "--https-port", str(https), "--tls-cert", cert, "--tls-key", key,
                "--tls-verify", "peer", "--tls-ca", ca.cert, "--tls-user-from", "common_name") as one:
        kept = []
        for version in VERSIONS:
            for port, first, identity, offered in ((amqps, AMQP, client, True), (amqps, AMQP, None, False),
                                                   (https, HTTP, None, False)):
                made = context(ca, version, identity)
                answer, again, session = come(made, port, first)
                check(not again and (b"EXTERNAL" in answer) == offered, "%s, port %d: the first time" % (version, port))
                for n in range(3):
                    answer, again, session = come(made, port, first, session)
                    check(again, "%s, port %d: no session was resumed" % (version, port))
                    check((b"EXTERNAL" in answer) == offered, "%s: whose certificate it was is forgotten" % version)
                kept.append((made, port, first, session))
        one.process.send_signal(signal.SIGHUP)
        for name in ("AMQPS", "HTTPS"):
            one.logged("SIGHUP: %s has read its certificates again" % name)
        for made, port, first, session in kept:
            _, again, session = come(made, port, first, session)
            check(not again, "port %d: a session outlived the rules it was made by" % port)
            check(come(made, port, first, session)[1], "port %d: no session was resumed afterwards" % port)
        check(one.stop() == 0, "no clean stop")


def main():
    report = Report("tls-sessions")
    with scratch() as folder:
        report.run([("sessions are resumed until the rules are read again", resumed)], folder)
    report.end()


main()
