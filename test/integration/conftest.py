"""Fixtures: a server shared by a module, servers made to order, and logs of failures.

A module may say `SERVER = dict(demo=True, sets=[...])` to shape its shared server. Tests of a
module share it, so each makes its own sale, items and users and may run in any order.
"""
import pytest

import sluicelib


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for server in list(sluicelib.running):
            report.sections.append((f"log of port {server.port}", server.log()[-4000:]))


@pytest.fixture(scope="module")
def server(request):
    options = dict(getattr(request.module, "SERVER", {}))
    options["sets"] = ["keeper.tick_ms=50", *options.get("sets", ())]
    made = sluicelib.Server(**options)
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.discard()


@pytest.fixture
def shop(server):
    return sluicelib.Shop(server)


@pytest.fixture
def make_server():
    """Start servers of this test's own; all are stopped, cleanly, at its end."""
    made = []

    def make(start=True, **options):
        options["sets"] = ["keeper.tick_ms=50", *options.get("sets", ())]
        one = sluicelib.Server(**options)
        made.append(one)
        return one.start() if start else one

    try:
        yield make
        for one in made:
            one.stop()
    finally:
        for one in made:
            one.discard()
