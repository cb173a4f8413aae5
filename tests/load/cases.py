"""What the programs of this folder share: their options, a broker for each case, its verdict, and waiting for something."""
import argparse
import resource
import time

from process import Broker
from wire import Gone


def until(condition, seconds=60, pause=0.05):
    """Whether it came to hold within `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def main(cases, figures=None):
    """`cases`: name -> run(broker, scale), which gives (good, text). `figures(broker, name)`, asked when a case has run, gives
    (good, text) too. One line a case; returns the exit status."""
    a = argparse.ArgumentParser()
    a.add_argument("--broker", required=True)
    a.add_argument("--case", choices=sorted(cases), action="append")
    a.add_argument("--scale", type=float, default=1.0)
    a.add_argument("--broker-args", default="", help="more arguments for the daemon")
    o = a.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    failed = 0
    for name in o.case or cases:
        broker = Broker(o.broker, o.broker_args.split()).start()
        try:
            began = time.monotonic()
            try:
                good, text = cases[name](broker, o.scale)
            except Gone as gone:
                good, text = False, "%s; the log ends: %s" % (gone, broker.log()[-300:])
            took = time.monotonic() - began
            if broker.p.poll() is not None:
                good, text = False, text + "; the broker ended with %s" % broker.p.returncode
            elif figures:
                well, more = figures(broker, name)
                good, text = good and well, "%s: %s" % (more, text)
            print("%s %-11s %6.1f s, %s" % ("PASS" if good else "FAIL", name, took, text), flush=True)
            failed += not good
        finally:
            broker.end()
    return 1 if failed else 0
