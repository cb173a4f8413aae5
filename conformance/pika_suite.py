#!/usr/bin/python3
"""pika's own acceptance tests. Usage: pika_suite.py AMQP_URL. See skips/pika.txt for those that are left out."""
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
    tree = sources.unpack("pika", folder)
    # The broker's address is written into the tests.
    blocking, base = "tests/acceptance/blocking_adapter_test.py", "tests/base/async_test_base.py"
    sources.edit(tree, [("5672", str(url.port))], blocking, base)
    # A test's own time limit of 15 s is for a machine that has nothing else to do.
    sources.edit(tree, [("TEST_TIMEOUT = 15", "TEST_TIMEOUT = 60"), ("host='localhost'", "host='%s'" % url.hostname)], base)
    pytest_suite.run(report, tree, [blocking, "tests/acceptance/async_adapter_tests.py"],
                     os.path.join(HERE, "skips", "pika.txt"), 400)


play("pika-suite", suite)
