#!/usr/bin/python3
"""aiormq's own tests (the client below aio-pika), from Debian's source. Usage: aiormq_suite.py AMQP_URL. See
skips/aiormq.txt for those that are left out. The plugin of pytest that they want is not in Debian: aiormq/ has the part
of it that they use."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import pytest_suite  # noqa: E402
import sources  # noqa: E402
from report import Skip, play  # noqa: E402


def describe(tree):
    """What an installed package says of itself: aiormq asks for its own version when it is imported."""
    name, version = os.path.basename(tree).removeprefix("python-").rsplit("-", 1)
    folder = os.path.join(tree, "%s-%s.dist-info" % (name, version))
    os.mkdir(folder)
    with open(os.path.join(folder, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))


def suite(report, folder):
    if subprocess.run(["/usr/bin/python3", "-c", "import pamqp, yarl, pytest_asyncio"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("python3-pamqp, python3-yarl and python3-pytest-asyncio are not all installed")
    tree = sources.unpack("aiormq", folder)
    # Each test comes with and without a name for the connection, and with and without TLS: once will do.
    sources.edit(tree, [("for name, url in amqp_urls.items():", 'for name, url in [("amqp", AMQP_URL)]:')],
                 "tests/conftest.py")
    describe(tree)
    pytest_suite.run(report, tree, ["tests"], os.path.join(HERE, "skips", "aiormq.txt"), 450,
                     {"AMQP_URL": sys.argv[1], "TEST_QUICK": "1", "PYTEST_ADDOPTS": "-p aiomisc_pytest -o asyncio_mode=auto"},
                     [os.path.join(HERE, "aiormq")])


play("aiormq-suite", suite)
