#!/usr/bin/python3
"""php-amqp's own tests (.phpt), from Debian's source, with Debian's extension of that version. Usage: php_amqp_suite.py
AMQP_URL. See skips/php-amqp.txt for those that are left out."""
import fnmatch
import os
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import phpt  # noqa: E402
import sources  # noqa: E402
from report import Skip, check, play, skip_list  # noqa: E402

TEST_S = 60


def suite(report, folder):
    version = sources.SOURCES["php-amqp"][1].partition("-")[0]
    try:
        there = subprocess.run(["php", "-r", "echo phpversion('amqp');"], stdout=subprocess.PIPE, timeout=20).stdout.decode()
    except FileNotFoundError:
        raise Skip("php-cli is not installed")
    if there != version:
        raise Skip("php-amqp %s is not installed (there is: %s)" % (version, there or "none"))
    tests = os.path.join(sources.unpack("php-amqp", folder), "tests")
    address = urllib.parse.urlsplit(sys.argv[1])
    settings = ["amqp.port=%d" % address.port]   # the host is localhost: what the tests show of a connection says so
    for name in os.listdir(tests):   # what is shown of a connection has its port
        with open(os.path.join(tests, name), encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        with open(os.path.join(tests, name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text.replace("int(5672)", "int(%d)" % address.port))
    names = sorted(name[:-len(".phpt")] for name in os.listdir(tests) if name.endswith(".phpt"))
    check(len(names) > 150, "only %d tests in it" % len(names))
    for pattern, reason in skip_list(os.path.join(HERE, "skips", "php-amqp.txt")):
        fits = fnmatch.filter(names, pattern)
        check(fits, "%s fits no test" % pattern)
        for name in fits:
            report.say("SKIP", name, reason)
            names.remove(name)
    # One at a time: their names are times in tenths of a millisecond, two at once may get the same.
    for name in names:
        verdict, why = phpt.run(os.path.join(tests, name + ".phpt"), settings, TEST_S)
        report.say(verdict, name, why)


play("php-amqp-suite", suite)
