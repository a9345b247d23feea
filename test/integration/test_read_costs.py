"""What a call costs that anybody may make, in instructions of the server.

A client without a token can send any of these calls as often as it likes. So none may cost more than
FACTOR times GET /v1/time, the cheapest call there is, with as many items as a large shop has. The
program runs under callgrind, which counts every instruction of every thread; time says nothing here.

What is made at most so often a second (MADE) is counted apart, since it does not depend on the number
of calls: under callgrind, or on a busy machine, a second has few calls.
"""
import glob
import os
import re
import shutil
import subprocess
import time

import pytest

import sluicelib
from sluicelib import Conn, request_bytes

LARGE = 128 * 1024  # bytes of an answer that may cost as much as FACTOR calls of the time
FACTOR = 4
# Function: how often a second it may run at most (src/api/answer_cache.c).
MADE = {"write_sales": 1, "metrics_render": 8, "crypt_hash": 9, "packer_gzip": 1}
ITEMS = (500, 500, 352)
CALLS = 1500
QUIET = 3_000_000  # instructions of an idle second
GZIP = {"Accept-Encoding": "gzip"}

pytestmark = [
    pytest.mark.slow,  # under callgrind everything takes fifty times as long
    pytest.mark.skipif(not shutil.which("callgrind_control"), reason="valgrind is missing"),
    pytest.mark.skipif(sluicelib.DISTRIBUTED, reason="the front runs the same code"),
]


def called(text):
    """Each call in a profile: the function that is called, how often, and what it and all that it calls
    cost. A name stands behind its number the first time, and then the number stands alone."""
    names, name, often = {}, "", 0
    for line in text.splitlines():
        found = re.match(r"c?fn=\((\d+)\)(?: (.*))?$", line)
        if found:
            if found[2]:
                names[found[1]] = found[2]
            name = names[found[1]]
        elif line.startswith("calls="):
            often = int(line[6:].split()[0])
        elif often:
            yield name, often, int(line.split()[1])
            often = 0


class CountedServer(sluicelib.Server):
    """A server under callgrind."""

    def command(self):
        return ["valgrind", "--tool=callgrind", "--quiet", "--combine-dumps=no",
                f"--callgrind-out-file={self.data}/callgrind", *super().command()]

    def _control(self, option):
        done = subprocess.run(["callgrind_control", option, str(self.process.pid)], check=False,
                              capture_output=True, text=True, timeout=sluicelib.GUARD_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def count(self, calls):
        """Instructions that the process runs while `calls` does what it does, without those of MADE;
        how often each of MADE was called."""
        before = set(glob.glob(f"{self.data}/callgrind.*"))
        self._control("--zero")
        calls()
        self._control("--dump")
        new = set(glob.glob(f"{self.data}/callgrind.*")) - before
        assert new, "callgrind wrote no dump"
        total, made = 0, dict.fromkeys(MADE, 0)
        for path in new:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            os.unlink(path)
            total += sum(int(n) for n in re.findall(r"^totals: (\d+)", text, re.M))
            for name, often, cost in called(text):
                if name in MADE:
                    total -= cost
                    made[name] += often
        return total, made


def ask(conn, request, status):
    conn.send(request)
    response = conn.read_response()
    assert response.status == status, response
    return response


def families(items):
    """Name, request, status, calls: every kind of call that needs no token."""
    item = items[len(items) // 2]
    get = lambda path, headers=None: request_bytes("GET", path, headers=headers or {})
    soon = int(time.time() * 1000) + 600_000
    return [
        ("time", get("/v1/time"), 200, CALLS),
        ("sales, gzip", get("/v1/sales", GZIP), 200, CALLS),
        ("sales, plain", get("/v1/sales"), 200, CALLS // 3),
        ("sales of a time", get(f"/v1/sales?from_ms={soon}&to_ms={soon + 1}", GZIP), 200, CALLS),
        ("item", get(f"/v1/items/{item}"), 200, CALLS),
        ("no such item", get("/v1/items/99999999"), 404, CALLS),
        ("page of sales, gzip", get("/", GZIP), 200, CALLS),
        ("page of an item, gzip", get(f"/items/{item}", GZIP), 200, CALLS),
        ("list of pages, gzip", get("/pages.json", GZIP), 200, CALLS),
        ("openapi", get("/openapi.json", GZIP), 200, CALLS),
        ("page config", get("/v1/page-config"), 200, CALLS),
        ("metrics", get("/metrics"), 200, CALLS),
        ("livez", get("/livez"), 200, CALLS),
        ("readyz", get("/readyz"), 200, CALLS),
        ("no such path", get("/v1/nothing"), 404, CALLS),
        ("no token", get("/v1/me/orders"), 401, CALLS),
        ("a buy without a token", request_bytes("POST", "/v1/buy/x"), 401, CALLS),
    ]


def test_no_anonymous_call_costs_four_times_the_time(capsys):
    server = CountedServer(sets=["server.threads=1", "keeper.tick_ms=1000"])
    try:
        server.start()
        shop = sluicelib.Shop(server)
        items = []
        for count in ITEMS:
            made = shop.create_sale(items=[{"name": f"Thing {i} of a large shop", "sku": f"T-{i}",
                                            "image_url": f"https://img.example.com/{i}.jpg",
                                            "price_cents": 9900, "total": 1000,
                                            "limit_per_user": 1} for i in range(count)])
            shop.moved(made["id"], "open")
            items += [item["id"] for item in made["items"]]
        # The pages of all items are made in the background: until nothing but timers runs.
        def quiet():
            cost, made = server.count(lambda: time.sleep(1))
            return cost < QUIET and not any(made.values())

        sluicelib.eventually(quiet, "a quiet server")
        costs, sizes = {}, {}
        with Conn(server.address) as conn:
            for name, request, status, calls in families(items):
                for _ in range(20):  # whatever is made once
                    ask(conn, request, status)
                began = time.monotonic()
                cost, made = server.count(
                    lambda r=request, s=status, n=calls: [ask(conn, r, s) for _ in range(n)])
                seconds = time.monotonic() - began + 2
                costs[name] = cost / calls
                sizes[name] = len(ask(conn, request, status).body)
                assert all(made[what] <= often * seconds for what, often in MADE.items()), made
        with capsys.disabled():
            for name, cost in costs.items():
                print(f"{name:24} {cost:9.0f} {cost / costs['time']:5.2f}")
        assert costs["time"] > 1000, "callgrind counted nothing"
        # A client that takes no gzip gets the list as it is; its bytes are written in many pieces.
        dear = {name: round(cost / costs["time"], 2) for name, cost in costs.items()
                if cost > FACTOR * costs["time"] * max(1, sizes[name] / LARGE)}
        assert not dear, f"more than {FACTOR} times GET /v1/time: {dear}"
    finally:
        server.kill()
        server.discard()
