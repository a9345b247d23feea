"""Fixtures: a server shared by a module, servers for single tests, and logs of failures.

A module may set `SERVER = dict(demo=True, sets=[...])` for its shared server. The tests of a module
share it, so each creates its own sale, items and users, and they may run in any order.

With SLUICE_TEST_RESULTS=FILE each test appends a line of JSON: its name, its status, its wall and
CPU seconds (with those of its servers). test/suite/parts.py reads them.
"""
import json
import os
import time

import pytest

import cpulib
import sluicelib

RESULTS = os.environ.get("SLUICE_TEST_RESULTS")


class Outcome:
    """Of the test that runs now."""
    status, why = "passed", ""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    began, cpu_s = time.monotonic(), cpulib.tree_cpu_s()
    Outcome.status, Outcome.why = "passed", ""
    yield
    if RESULTS:
        row = {"name": item.nodeid.split("/")[-1], "status": Outcome.status,
               "wall_s": time.monotonic() - began,
               "cpu_s": max(cpulib.tree_cpu_s() - cpu_s, 0.0), "why": Outcome.why}
        with open(RESULTS, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def pytest_runtest_logreport(report):
    if report.failed:
        Outcome.status, Outcome.why = "failed", str(report.longrepr)[-300:]
    elif report.skipped and Outcome.status == "passed":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        Outcome.status, Outcome.why = "skipped", str(reason)


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
