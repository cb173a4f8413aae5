#!/usr/bin/python3
"""kombu's own integration tests over py-amqp. Usage: kombu_suite.py AMQP_URL. See skips/kombu.txt for those that are left
out. (Where Debian's mirror does not have its source package, kombu_client.py is what speaks for it.)"""
import os
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import pytest_suite  # noqa: E402
import sources  # noqa: E402
from report import play  # noqa: E402


def suite(report, folder):
    url = urllib.parse.urlparse(sys.argv[1])
    tree = sources.unpack("kombu", folder)
    pytest_suite.run(report, tree, ["t/integration/test_py_amqp.py"], os.path.join(HERE, "skips", "kombu.txt"), 300,
                     {"RABBITMQ_HOST": url.hostname, "RABBITMQ_5672_TCP": str(url.port)})


play("kombu-suite", suite)
