#!/usr/bin/python3
"""The tests of AnyEvent::RabbitMQ (Perl) that want a broker, from Debian's source. Usage: anyevent_suite.py AMQP_URL. Its
protocol header is the one of 0-9."""
import os
import re
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import sources  # noqa: E402
from report import play  # noqa: E402

SCRIPTS = ("04_anyevent.t", "05_multi_channel.t", "06_close.t")
SCRIPT_S = 200


def suite(report, folder):
    sources.run(["perl", "-MAnyEvent", "-MNet::AMQP", "-MTest::Exception", "-MFile::ShareDir", "-e", "1"], 20)
    tree = sources.unpack("anyevent-rabbitmq", folder)
    port = urllib.parse.urlsplit(sys.argv[1]).port
    sources.edit(tree, [("5672", str(port))], *["xt/" + name for name in SCRIPTS])
    for script in SCRIPTS:
        tap(report, tree, script)


def tap(report, tree, script):
    """One script, whose output is TAP: "ok N - NAME", "not ok N - NAME", at some place the plan "1..N"."""
    done = subprocess.run(["timeout", "-k", "5", str(SCRIPT_S), "perl", "-Ilib", "xt/" + script], cwd=tree,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode(errors="replace")
    skipped = re.search(r"^1\.\.0 # SKIP (.*)", output, re.M)
    if skipped:
        return report.say("FAIL", script, "left itself out: " + skipped.group(1))
    results = re.findall(r"^(not )?ok (\d+)(?: - (.*))?", output, re.M)
    for bad, number, name in results:
        report.say("FAIL" if bad else "PASS", "%s %s %s" % (script, number, name))
    plan = re.search(r"^1\.\.(\d+)", output, re.M)
    if done.returncode != 0 or not plan or int(plan.group(1)) != len(results):
        report.say("FAIL", script, "ended with %d after %d tests: %s" % (done.returncode, len(results), output[-300:]))


play("anyevent-suite", suite)
