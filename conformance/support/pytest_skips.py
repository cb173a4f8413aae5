"""A pytest plugin: skips the tests of $SKIP_LIST (report.skip_list, patterns of node ids), and fails if an entry fits none."""
import fnmatch
import os

import pytest
from report import skip_list


def pytest_collection_modifyitems(config, items):
    for pattern, reason in skip_list(os.environ["SKIP_LIST"]):
        # "[" is part of a node id here, not a set of characters.
        fits = [i for i in items if fnmatch.fnmatchcase(i.nodeid, pattern.replace("[", "[[]"))]
        if not fits:
            raise pytest.UsageError("%s: %s fits no test" % (os.environ["SKIP_LIST"], pattern))
        for item in fits:
            item.add_marker(pytest.mark.skip(reason=reason))
