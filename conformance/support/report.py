"""What a script of this folder says: a line "PASS|FAIL|SKIP SUITE: NAME" for each check, a reason after " -- "."""
import sys
import tempfile


class Fail(Exception):
    """A check that does not hold; the text says why."""


class Skip(Exception):
    """Something that is not to be had here; the text says what."""


def check(condition, why):
    if not condition:
        raise Fail(why)


def one_line(text, most=400):
    return " ".join(str(text).split())[:most]


class Report:
    def __init__(self, suite):
        self.suite, self.failed, self.passed = suite, 0, 0

    def say(self, verdict, name, reason=""):
        self.failed += verdict == "FAIL"
        self.passed += verdict == "PASS"
        print("%s %s: %s%s" % (verdict, self.suite, name, " -- " + one_line(reason) if reason else ""), flush=True)

    def run(self, checks, *arguments):
        """Each of `checks` is (name, function). Whatever it raises is this check's verdict."""
        for name, function in checks:
            try:
                function(*arguments)
                self.say("PASS", name)
            except Skip as reason:
                self.say("SKIP", name, reason)
            except Exception as error:
                self.say("FAIL", name, "%s %s" % (type(error).__name__, error))

    def end(self):
        sys.exit(1 if self.failed else 0)


def play(name, suite):
    """A script that is one suite: `suite(report, folder)` with a temporary folder; a Skip out of it is that of the whole."""
    report = Report(name)
    with tempfile.TemporaryDirectory() as folder:
        try:
            suite(report, folder)
        except Skip as reason:
            report.say("SKIP", "the suite", reason)
        except Fail as reason:
            report.say("FAIL", "the suite", reason)
    report.end()


def skip_list(path):
    """[(pattern, reason)] of a file with lines "PATTERN -- REASON"; "#" begins a comment."""
    entries = []
    with open(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                pattern, dash, reason = line.strip().partition(" -- ")
                check(dash and reason, "%s:%d: no reason" % (path, number))
                entries.append((pattern.strip(), reason))
    return entries
