#!/usr/bin/python3
"""AMQPS and HTTPS over real sockets, with brokers and certificates of its own: versions, ciphers, clients' certificates and
SASL EXTERNAL, a certificate for each name, what SIGHUP reads again, and settings that cannot work.
"""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time

import pika
import pika.exceptions

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from broker import PROGRAM, Broker, free_ports, scratch  # noqa: E402
from certificates import Authority  # noqa: E402
from report import Report, Skip, check  # noqa: E402

DEADLINE_S = 60
LOCAL = "DNS:localhost,IP:127.0.0.1"


class World:
    """Everybody's certificates, made once."""

    def __init__(self, directory):
        self.ca = Authority(directory, "ca")
        self.stranger = Authority(directory, "stranger")
        self.server = self.ca.sign("server", "server", LOCAL)
        self.client = self.ca.sign("client", "guest", "DNS:by-dns,email:by@mail.example,URI:urn:by-uri")
        self.nobody = self.ca.sign("nobody", "nobody-there")
        self.expired = self.ca.sign("expired", "guest", days=-1)
        self.forged = self.stranger.sign("forged", "guest")


@contextlib.contextmanager
def broker(world, *flags, server=None):
    """A broker with AMQPS and HTTPS beside the rest."""
    cert, key = server or world.server
    amqps, https = free_ports(2)
    with scratch() as folder:
        one = Broker(folder, "--amqps-port", str(amqps), "--https-port", str(https), "--tls-cert", cert, "--tls-key", key,
                     *flags)
        one.amqps, one.https = amqps, https
        with one:
            yield one
            if one.process.poll() is None:
                status = one.stop()
                check(status == 0, "stopped with %s: %s" % (status, one.log_end(5)))


def by_name(world, where="common_name"):
    return "--tls-verify", "peer", "--tls-ca", world.ca.cert, "--tls-user-from", where


def context(world, identity=None, **bounds):
    made = ssl.create_default_context(cafile=world.ca.cert)
    for name, value in bounds.items():
        setattr(made, name, value)
    if identity:
        made.load_cert_chain(*identity)
    return made


def connect(world, one, identity=None, credentials=None, **bounds):
    options = pika.SSLOptions(context(world, identity, **bounds), "localhost")
    return pika.BlockingConnection(pika.ConnectionParameters(
        "127.0.0.1", one.amqps, "/", credentials or pika.PlainCredentials("guest", "guest"), ssl_options=options,
        socket_timeout=DEADLINE_S, blocked_connection_timeout=DEADLINE_S))


def refused(world, one, identity=None, credentials=None, **bounds):
    try:
        connect(world, one, identity, credentials, **bounds).close()
    except (pika.exceptions.AMQPError, ssl.SSLError, OSError) as error:
        return error
    check(False, "the connection was accepted")


def request(world, one, method, path, body=None, headers=None):
    """(status, headers, body) of one call, over TLS."""
    connection = http.client.HTTPSConnection("localhost", one.https, timeout=DEADLINE_S, context=context(world))
    connection.request(method, path, None if body is None else json.dumps(body),
                       {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
                        "Content-Type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    out = answer.status, answer.headers, answer.read()
    connection.close()
    return out


def s_client(one, *arguments, port=None):
    """What openssl's own client says of a handshake."""
    done = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % (port or one.amqps), *arguments],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE_S)
    return done.stdout.decode(errors="replace")


def subject_shown(one, *arguments, port=None):
    return re.search(r"subject=.*CN = (\S+)", s_client(one, *arguments, port=port)).group(1)


# -- The checks

def messages_of_all_sizes(world):
    """What a plain connection carries, both ways, and more than any buffer holds."""
    with broker(world) as one:
        connection = connect(world, one)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        bodies = [os.urandom(n) for n in (0, 1, 16_383, 16_384, 16_385, 131_071, 262_145, 9_000_001)]
        bodies += [b"%d" % n for n in range(2_000)]
        for body in bodies[:8]:
            channel.basic_publish("", "q", body)
        connection.channel()   # without confirms: as fast as it goes
        fast = connection.channel()
        for body in bodies[8:]:
            fast.basic_publish("", "q", body)
        got = []
        for method, _, body in channel.consume("q", inactivity_timeout=DEADLINE_S):
            check(method is not None, "%d of %d messages came" % (len(got), len(bodies)))
            channel.basic_ack(method.delivery_tag)
            got.append(hashlib.sha256(body).digest())
            if len(got) == len(bodies):
                break
        check(got == [hashlib.sha256(body).digest() for body in bodies], "other messages came, or in another order")
        connection.close()


def slow_reader(world):
    """A consumer that reads late finds all of it: the broker writes on when it can."""
    with broker(world) as one:
        connection = connect(world, one)
        channel = connection.channel()
        channel.queue_declare("q")
        digest = hashlib.sha256()
        for n in range(40):
            body = bytes([n]) * 500_000
            digest.update(body)
            channel.basic_publish("", "q", body)
        late = connect(world, one)
        got, seen = hashlib.sha256(), []

        def on_message(_, method, __, body):
            got.update(body)
            seen.append(method.delivery_tag)
            if len(seen) == 40:
                late_channel.stop_consuming()
        late_channel = late.channel()
        late_channel.basic_consume("q", on_message, auto_ack=True)
        connection.process_data_events(0.5)   # meanwhile nobody reads on `late`
        late_channel.start_consuming()
        check(got.digest() == digest.digest(), "other bytes came")
        late.close()
        connection.close()


def listed_with_its_tls(world):
    with broker(world, *by_name(world)) as one:
        connection = connect(world, one, world.client, pika.credentials.ExternalCredentials())
        status, _, body = request(world, one, "GET", "/api/connections")
        check(status == 200, "status %d" % status)
        [shown] = json.loads(body)
        check(shown["ssl"] is True and shown["ssl_protocol"] == "TLSv1.3", "%s" % shown)
        check(shown["ssl_cipher"].startswith("TLS_"), "%s" % shown)
        check(shown["auth_mechanism"] == "EXTERNAL" and shown["user"] == "guest", "%s" % shown)
        check(shown["peer_cert_subject"] == "CN=guest" and "CN=ca" in shown["peer_cert_issuer"], "%s" % shown)
        check(re.match(r"20..-..-..T..:..:..Z - 20..-", shown["peer_cert_validity"]), "%s" % shown)
        _, _, body = request(world, one, "GET", "/api/overview")
        kinds = {listener["protocol"] for listener in json.loads(body)["listeners"]}
        check(kinds == {"amqp", "amqp/ssl", "http", "https"}, "listeners %s" % kinds)
        connection.close()


def old_versions_are_refused(world):
    with broker(world) as one:
        for port in (one.amqps, one.https):
            for version, good in (("-tls1", False), ("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
                said = s_client(one, version, "-cipher", "DEFAULT@SECLEVEL=0", port=port)
                check(("Cipher is (NONE)" not in said) == good, "%s: %s" % (version, said[-400:]))
        one.logged(r"TLS handshake failed: unsupported protocol")
    with broker(world, "--tls-min-version", "1.3") as one:
        refused(world, one, maximum_version=ssl.TLSVersion.TLSv1_2)
        connect(world, one).close()


def ciphers_are_those_allowed(world):
    with broker(world) as one:
        for cipher, good in (("ECDHE-ECDSA-AES128-GCM-SHA256", True), ("ECDHE-ECDSA-AES128-SHA", False)):
            said = s_client(one, "-tls1_2", "-cipher", cipher)
            check(("Cipher is " + cipher in said) == good, "%s: %s" % (cipher, said[-400:]))
    with broker(world, "--tls-ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384", "--tls-ciphersuites",
                "TLS_CHACHA20_POLY1305_SHA256") as one:
        check("Cipher is (NONE)" in s_client(one, "-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"), "128 is off")
        check("Cipher is ECDHE-ECDSA-AES256" in s_client(one, "-tls1_2"), "256 is on")
        check("TLS_CHACHA20_POLY1305_SHA256" in s_client(one, "-tls1_3"), "the suite of 1.3")


def certificates_when_wanted(world):
    """verify = peer: who shows none logs in with a password; who shows a bad one does not get in."""
    external = pika.credentials.ExternalCredentials()
    with broker(world, *by_name(world)) as one:
        connect(world, one).close()
        connect(world, one, world.client).close()
        connect(world, one, world.client, external).close()
        connect(world, one, world.client, external, maximum_version=ssl.TLSVersion.TLSv1_2).close()
        refused(world, one, None, external)
        for identity, why in ((world.expired, "certificate has expired"), (world.forged, "unable to get local issuer")):
            refused(world, one, identity)
            one.logged("refused: TLS handshake failed: certificate verify failed: " + why)


def certificates_when_required(world):
    with broker(world, "--tls-verify", "required", "--tls-ca", world.ca.cert) as one:
        refused(world, one)
        one.logged("refused: TLS handshake failed: peer did not return a certificate")
        for identity in (world.expired, world.forged):
            refused(world, one, identity)
        connect(world, one, world.client).close()
        check(request(world, one, "GET", "/api/whoami")[0] == 200, "HTTPS asks for no certificate")


def external_is_offered_only_when_wanted(world):
    """py-amqp (Celery) takes it whenever it is offered, and would not use its password."""
    with broker(world, "--tls-verify", "peer", "--tls-ca", world.ca.cert) as one:
        connect(world, one, world.client).close()
        refused(world, one, world.client, pika.credentials.ExternalCredentials())


def certificates_not_asked_for(world):
    with broker(world) as one:
        connect(world, one, world.client).close()
        refused(world, one, world.client, pika.credentials.ExternalCredentials())


def external_is_who_the_certificate_says(world):
    external = pika.credentials.ExternalCredentials()
    with broker(world, *by_name(world)) as one:
        error = refused(world, one, world.nobody, external)
        check("Login was refused using authentication mechanism EXTERNAL" in str(error), "%r" % error)
        one.logged("log-in of user 'nobody-there' from 127.0.0.1 refused: there is no such user")
    for where, name in (("dns", "by-dns"), ("email", "by@mail.example"), ("uri", "urn:by-uri")):
        with broker(world, *by_name(world, where)) as one:
            for path, body in (("users/" + name, {"password": "x", "tags": ""}),
                               ("permissions/%2F/" + name, {"configure": ".*", "write": ".*", "read": ".*"})):
                status, _, answer = request(world, one, "PUT", "/api/" + path, body)
                check(status == 201, "%s: %d %s" % (path, status, answer))
            connection = connect(world, one, world.client, external)
            [shown] = json.loads(request(world, one, "GET", "/api/connections")[2])
            check(shown["user"] == name, "%s: user %s" % (where, shown["user"]))
            connection.close()
            refused(world, one, world.nobody, external)   # has no such name


def a_certificate_for_each_name(world):
    with scratch() as names:
        theirs = Authority(names, "names-ca")
        directory = os.path.join(names, "sni")
        os.mkdir(directory)
        for name in ("one.example", "*.two.example"):
            for made in theirs.sign("made", name, "DNS:" + name):
                os.rename(made, os.path.join(directory, name + os.path.splitext(made)[1]))
        with broker(world, "--tls-sni-dir", directory) as one:
            for port in (one.amqps, one.https):
                for asked, shown in (("one.example", "one.example"), ("ONE.example", "one.example"),
                                     ("a.two.example", "*.two.example"), ("a.b.two.example", "server"),
                                     ("two.example", "server"), ("other.example", "server")):
                    for version in ("-tls1_2", "-tls1_3"):
                        got = subject_shown(one, "-servername", asked, version, port=port)
                        check(got == shown, "for %s came %s" % (asked, got))
                check(subject_shown(one, "-noservername", port=port) == "server", "without a name")
            # A further name, at the next SIGHUP.
            for made in theirs.sign("made", "three.example", "DNS:three.example"):
                os.rename(made, os.path.join(directory, "three.example" + os.path.splitext(made)[1]))
            one.process.send_signal(signal.SIGHUP)
            one.logged("AMQPS has read its certificates again")
            check(subject_shown(one, "-servername", "three.example") == "three.example", "the new name")


def a_new_certificate_at_sighup(world):
    with scratch() as folder:
        cert, key = os.path.join(folder, "s.crt"), os.path.join(folder, "s.key")

        def put(pair):
            for source, to in zip(pair, (cert, key)):
                with open(source) as text, open(to, "w") as out:
                    out.write(text.read())
        put(world.server)
        with broker(world, server=(cert, key)) as one:
            early = connect(world, one)
            channel = early.channel()
            put(world.ca.sign("second", "second", LOCAL))
            check(subject_shown(one) == "server", "nothing changes before the signal")
            one.process.send_signal(signal.SIGHUP)
            one.logged("SIGHUP: AMQPS has read its certificates again")
            one.logged("SIGHUP: HTTPS has read its certificates again")
            check(subject_shown(one) == "second" and subject_shown(one, port=one.https) == "second", "the new certificate")
            connect(world, one).close()
            channel.queue_declare("still-there")   # who was connected stays so
            with open(cert, "w") as out:
                out.write("-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n")
            one.process.send_signal(signal.SIGHUP)
            one.logged(r"SIGHUP: AMQPS goes on with the certificates it has: tls_cert = \".*s.crt\"")
            one.logged(r"SIGHUP: HTTPS goes on with the certificates it has: tls_cert = \".*s.crt\"")
            check(subject_shown(one) == "second" and subject_shown(one, port=one.https) == "second", "it was kept")
            channel.queue_declare("still-there-2")
            early.close()


def the_health_check_knows_when_they_expire(world):
    with broker(world) as one:   # its certificate is good for 30 days
        for within, healthy in (("1/days", True), ("4/weeks", True), ("31/days", False), ("1/months", False), ("1/years", False)):
            status, _, body = request(world, one, "GET", "/api/health/checks/certificate-expiration/" + within)
            check(status == (200 if healthy else 503), "%s: %d %s" % (within, status, body))
            if not healthy:
                found = {(e["name"], e["port"]) for e in json.loads(body)["expired"]}
                check(found == {("amqp/ssl", one.amqps), ("https", one.https)}, "%s" % found)
        check(request(world, one, "GET", "/api/health/checks/certificate-expiration/1/moons")[0] == 400, "moons")


def settings_that_cannot_work(world):
    cert, key = world.server
    broken = world.ca.path("broken.pem")
    with open(broken, "w") as out:
        out.write("no certificate\n")
    locked = world.ca.path("locked.key")
    subprocess.run(["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked], check=True)
    amqps = free_ports(1)[0]
    for flags, words in (
            ((), ("tls_cert", "amqps_port needs a certificate")),
            (("--tls-cert", cert), ("tls_key", "needs a certificate and its key")),
            (("--tls-cert", "/no/such.pem", "--tls-key", key), ("tls_cert", "/no/such.pem", "No such file")),
            (("--tls-cert", broken, "--tls-key", key), ("tls_cert", broken, "no certificate (PEM)")),
            (("--tls-cert", cert, "--tls-key", broken), ("tls_key", broken, "no key (PEM")),
            (("--tls-cert", cert, "--tls-key", locked), ("tls_key", locked, "without a pass phrase")),
            (("--tls-cert", cert, "--tls-key", world.client[1]), ("tls_key", "is not the key of the certificate", cert)),
            (("--tls-cert", cert, "--tls-key", key, "--tls-verify", "peer"), ("tls_ca", "who may sign")),
            (("--tls-cert", cert, "--tls-key", key, "--tls-verify", "peer", "--tls-ca", broken), ("tls_ca", broken)),
            (("--tls-cert", cert, "--tls-key", key, "--tls-ciphers", "NONE-SUCH"), ("tls_ciphers", "NONE-SUCH")),
            (("--tls-cert", cert, "--tls-key", key, "--tls-ciphersuites", "NONE"), ("tls_ciphersuites", "NONE")),
            (("--tls-cert", cert, "--tls-key", key, "--tls-min-version", "1.1"), ("tls_min_version", "1.1", "1.2, 1.3")),
            (("--tls-cert", cert, "--tls-key", key, "--tls-sni-dir", "/no/such"), ("tls_sni_dir", "/no/such")),
            (("--proxy-protocol-trusted-sources", "10.0.0.0/33"), ("tls_cert",)),
            (("--tls-cert", cert, "--tls-key", key, "--proxy-protocol-trusted-sources", "10.0.0.0/33"),
             ("proxy_protocol_trusted_sources", "10.0.0.0/33", "0..32"))):
        with scratch() as folder:
            done = subprocess.run([PROGRAM, "--data-dir", os.path.join(folder, "data"), "--amqp-port", "0", "--http-port", "0",
                                   "--amqps-port", str(amqps), *flags], stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=DEADLINE_S, env={k: v for k, v in os.environ.items() if k[:8] != "TARRYMQ_"})
            lines = done.stderr.decode().splitlines()
            check(done.returncode == 2 and len(lines) == 1, "%s: status %d, %s" % (flags, done.returncode, lines))
            for word in words:
                check(word in lines[0], "%r does not say %r" % (lines[0], word))
            check(not os.path.exists(os.path.join(folder, "data")), "something was made in the data directory")


def what_is_not_tls(world):
    """Bytes of other kinds at the TLS ports, TLS at the plain one: closed, and the next client is served."""
    with broker(world, "--handshake-timeout-ms", "3000") as one:   # time enough for who means it
        for port in (one.amqps, one.https):
            for first in (b"AMQP\0\0\x09\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 100, b"\0" * 5):
                with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as s:
                    s.sendall(first)
                    got = b""
                    with contextlib.suppress(ConnectionResetError):
                        while part := s.recv(4096):
                            got += part
                    check(b"AMQP" not in got and b"HTTP/1.1 2" not in got, "%r was answered with %r" % (first, got))
        one.logged("refused: TLS handshake failed: ")
        with socket.create_connection(("127.0.0.1", one.amqp), DEADLINE_S) as s:
            try:
                context(world).wrap_socket(s, server_hostname="localhost")
                check(False, "TLS without TLS")
            except (ssl.SSLError, OSError):
                pass
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", one.amqps), DEADLINE_S) as s:   # says nothing
            s.recv(1)
        check(time.monotonic() - began >= 3, "closed early")
        one.logged("refused: no handshake within handshake_timeout_ms")
        connect(world, one).close()


def hello_byte_by_byte(world):
    """A client whose packets are of one byte each."""
    with broker(world) as one:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context(world).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", one.amqps), DEADLINE_S) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def talk(step):
                while True:
                    try:
                        done = step()
                    except ssl.SSLWantReadError:
                        done = None
                    for byte in outgoing.read():
                        s.sendall(bytes([byte]))
                    if done is not None:
                        return done
                    incoming.write(s.recv(65536))
            talk(lambda: session.do_handshake() or True)
            talk(lambda: session.write(b"AMQP\0\0\x09\x01"))
            check(talk(lambda: session.read(4096)).startswith(b"\x01\0\0"), "no connection.start")


def unfinished_handshakes_do_not_hold_up_a_stop(world):
    with broker(world, "--handshake-timeout-ms", "600000") as one:
        held = [socket.create_connection(("127.0.0.1", port), DEADLINE_S) for port in (one.amqps, one.https) for _ in range(5)]
        connect(world, one).close()
        check(one.stop() == 0, "no clean stop: it waited for them")
        for s in held:
            s.close()


def https(world):
    """Calls, kept-alive, with bodies either way; HSTS only where there is no other way in."""
    with broker(world) as one:
        status, headers, _ = request(world, one, "GET", "/api/overview")
        check(status == 200 and headers["Strict-Transport-Security"] is None, "%d %s" % (status, headers.items()))
        connection = http.client.HTTPSConnection("localhost", one.https, timeout=DEADLINE_S, context=context(world))
        authorization = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
        headers = {**authorization, "Content-Type": "application/json"}

        def call(verb, path, body, expected):
            connection.request(verb, path, json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            check(answer.status == expected, "%s %s: %d %s" % (verb, path, answer.status, text[:200]))
            return text

        call("PUT", "/api/queues/%2F/q", {}, 201)
        for n in range(20):
            call("POST", "/api/exchanges/%2F/amq.default/publish",
                 {"routing_key": "q", "payload": "x" * n * 20_000, "payload_encoding": "string", "properties": {}}, 200)
        text = call("POST", "/api/queues/%2F/q/get", {"count": 20, "ackmode": "ack_requeue_true", "encoding": "auto"}, 200)
        check(len(text) > 3_000_000 and len(json.loads(text)) == 20, "%d bytes" % len(text))
        connection.request("GET", "/", headers={"Connection": "close"})
        page = connection.getresponse()
        check(page.status == 200 and b"<!doctype html>" in page.read().lower(), "no page")
        for name, value in (("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY"),
                            ("Referrer-Policy", "no-referrer")):
            check(page.headers[name] == value, "%s: %s" % (name, page.headers[name]))
        check("frame-ancestors 'none'" in page.headers["Content-Security-Policy"], "CSP")
        connection.close()
    amqps, port = free_ports(2)
    with scratch() as folder:
        one = Broker(folder, "--https-port", str(port), "--tls-cert", world.server[0], "--tls-key", world.server[1])
        one.http, one.https = 0, port
        with one:
            for path in ("/", "/api/overview", "/api/none-such"):
                _, headers, _ = request(world, one, "GET", path)
                check(headers["Strict-Transport-Security"] == "max-age=31536000", "%s: %s" % (path, headers.items()))
            check(one.stop() == 0, "no clean stop")


def tarrymqctl_over_https(world):
    program = os.path.join(os.path.dirname(PROGRAM), "tarrymqctl")
    if not os.path.exists(program):
        raise Skip("no tarrymqctl beside the broker")
    with broker(world) as one:
        for more, good in ((("--cacert", world.ca.cert), True), (("--insecure",), True), ((), False),
                           (("--cacert", world.stranger.cert), False)):
            done = subprocess.run([program, "--uri", "https://guest:guest@localhost:%d" % one.https, *more, "list_users"],
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S)
            check((done.returncode == 0) == good, "%s: status %d, %s" % (more, done.returncode, (done.stdout + done.stderr).decode()))
            check(good or b"--cacert FILE" in done.stderr, "it does not say what to do: %r" % done.stderr)


def main():
    report = Report("tls")
    with scratch() as folder:
        world = World(folder)
        report.run([(name.replace("_", " "), check_) for name, check_ in (
            (f.__name__, f) for f in (
                messages_of_all_sizes, slow_reader, listed_with_its_tls, old_versions_are_refused, ciphers_are_those_allowed,
                certificates_when_wanted, certificates_when_required, certificates_not_asked_for,
                external_is_offered_only_when_wanted,
                external_is_who_the_certificate_says, a_certificate_for_each_name, a_new_certificate_at_sighup,
                the_health_check_knows_when_they_expire, settings_that_cannot_work, what_is_not_tls, hello_byte_by_byte,
                unfinished_handshakes_do_not_hold_up_a_stop, https, tarrymqctl_over_https))], world)
    report.end()


main()
