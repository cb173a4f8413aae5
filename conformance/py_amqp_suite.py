#!/usr/bin/python3
"""py-amqp's own integration tests, each of them plain and over TLS, against a broker of this script's own. See
skips/py-amqp.txt for those that are left out."""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import pytest_suite  # noqa: E402
import sources  # noqa: E402
from broker import Broker, free_ports, scratch  # noqa: E402
from certificates import Authority  # noqa: E402
from report import play  # noqa: E402


def put_certificates(authority, tree):
    """Where the tests look for them."""
    folder = os.path.join(tree, "t", "certs")
    os.makedirs(folder, exist_ok=True)
    cert, key = authority.sign("client", "client")
    for source, name in ((authority.cert, "ca_certificate.pem"), (cert, "client_certificate.pem"), (key, "client_key.pem")):
        shutil.copy(source, os.path.join(folder, name))
    for name in ("client_certificate_broken.pem", "client_key_broken.pem"):
        with open(os.path.join(folder, name), "w") as out:
            out.write("-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n")


def suite(report, folder):
    tree = sources.unpack("py-amqp", folder)
    amqps = free_ports(1)[0]
    with scratch() as home:
        authority = Authority(home)
        cert, key = authority.sign("server", "server", "DNS:localhost,IP:127.0.0.1")
        put_certificates(authority, tree)
        with Broker(home, "--amqps-port", str(amqps), "--tls-cert", cert, "--tls-key", key, "--tls-ca", authority.cert,
                    "--tls-verify", "peer") as broker:
            pytest_suite.run(report, tree, ["t/integration"], os.path.join(HERE, "skips", "py-amqp.txt"), 300,
                             {"RABBITMQ_HOST": "127.0.0.1", "RABBITMQ_5672_TCP": str(broker.amqp),
                              "RABBITMQ_5671_TCP": str(amqps)})


play("py-amqp-suite", suite)
