#!/usr/bin/python3
"""amqp091-go's own tests, unit and integration, from Debian's -dev package. Usage: amqp091_go_suite.py AMQP_URL. See
skips/amqp091-go.txt for those that are left out."""
import fnmatch
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import sources  # noqa: E402
from report import Skip, check, play, skip_list  # noqa: E402
from sources import KEPT, run  # noqa: E402

PACKAGE = "github.com/rabbitmq/amqp091-go"
GOPATH = "/usr/share/gocode"


def suite(report, folder):
    if not os.path.exists(os.path.join(GOPATH, "src", PACKAGE, "integration_test.go")):
        raise Skip("golang-github-rabbitmq-amqp091-go-dev is not installed")
    # Three tests are only for a product of the name RabbitMQ, and else leave a connection open: they are for us too.
    ours = os.path.join(folder, "src", PACKAGE)
    shutil.copytree(os.path.join(GOPATH, "src", PACKAGE), ours)
    sources.edit(ours, [('product.(string) == "RabbitMQ"', 'product.(string) != ""'),
                        ('server == "RabbitMQ"', 'server != ""')], "integration_test.go")
    environment = dict(os.environ, GOPATH=folder + ":" + GOPATH, GO111MODULE="off", GOFLAGS="", GOCACHE=os.path.join(KEPT, "go"),
                       AMQP_URL=sys.argv[1])
    binary = os.path.join(folder, "suite.test")
    run(["go", "test", "-c", "-tags", "integration", "-o", binary, PACKAGE], 280, env=environment)
    listed = run([binary, "-test.list", "."], 20, env=environment).split()
    tests = [name for name in listed if re.match(r"(Test|Example)", name)]
    check(len(tests) > 100, "only %d tests in it" % len(tests))
    for pattern, reason in skip_list(os.path.join(HERE, "skips", "amqp091-go.txt")):
        fits = fnmatch.filter(tests, pattern)
        check(fits, "%s fits no test" % pattern)
        for name in fits:
            report.say("SKIP", name, reason)
            tests.remove(name)
    done = subprocess.run(
        ["timeout", "-k", "5", "400", binary, "-test.v", "-test.timeout", "390s", "-test.run", "^(%s)$" % "|".join(tests)],
        cwd=ours, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode(errors="replace")
    verdicts = dict((name, verdict) for verdict, name in
                    re.findall(r"^\s*--- (PASS|FAIL|SKIP): (\w+) \(", output, re.MULTILINE))
    for name in tests:
        verdict = verdicts.get(name, "FAIL")
        said = re.search(r"--- %s: %s .*\n((?:    .*\n)*)" % (verdict, name), output)
        report.say(verdict, name, "" if verdict == "PASS" else said.group(1) if said else "it did not come to its end")
    if done.returncode != 0 and report.failed == 0:
        report.say("FAIL", "the suite", "ended with %d: %s" % (done.returncode, output[-400:]))


play("amqp091-go-suite", suite)
