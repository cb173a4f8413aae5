"""Runs a suite that is written for pytest, and tells each of its tests to a Report."""
import os
import subprocess
import xml.etree.ElementTree

from report import Skip, one_line

HERE = os.path.dirname(os.path.abspath(__file__))


def run(report, tree, tests, skips, seconds, environment=None, python_path=()):
    """`tests`: paths below `tree`; `skips`: the skip list's file. Debian's python3 and pytest."""
    try:
        subprocess.run(["/usr/bin/python3", "-c", "import pytest"], check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        raise Skip("python3-pytest is not installed")
    result = os.path.join(tree, "result.xml")
    path = os.pathsep.join([tree, HERE, *python_path])
    done = subprocess.run(
        ["timeout", "-k", "5", str(seconds), "/usr/bin/python3", "-m", "pytest", "-q", "--no-header", "--tb=short",
         "-p", "no:cacheprovider", "-p", "pytest_skips", "--junitxml", result, "-W", "ignore", *tests],
        cwd=tree, env=dict(os.environ, PYTHONPATH=path, SKIP_LIST=skips, **(environment or {})),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode(errors="replace")
    try:
        cases = xml.etree.ElementTree.parse(result).getroot().iter("testcase")
    except (OSError, xml.etree.ElementTree.ParseError):
        report.say("FAIL", "the suite", "ended with %d: %s" % (done.returncode, one_line(output[-600:], 600)))
        return
    for case in cases:
        name = "%s.%s" % (case.get("classname").rpartition(".")[2], case.get("name"))
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            report.say("FAIL", name, bad.get("message"))
        elif skipped is not None:
            report.say("SKIP", name, skipped.get("message"))
        else:
            report.say("PASS", name)
    if done.returncode != 0 and report.failed == 0:
        report.say("FAIL", "the suite", "ended with %d: %s" % (done.returncode, one_line(output[-600:], 600)))
