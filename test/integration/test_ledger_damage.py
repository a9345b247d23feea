"""Bits of the ledger's file flip under the real program: /readyz, the log, the metric, the live feed
and `sluice reconcile` say so, and no answer is another one than before. test_ledger_damage.c does the
same for hundreds of bits without the server around the ledger.
"""
import json
import os
import random
import shutil
import subprocess

import pytest

import marialib
import sluicelib
from sluicelib import Shop, eventually

pytestmark = pytest.mark.embedded
SEED = int(os.environ.get("SLUICE_SEED") or random.SystemRandom().randrange(2**32))
PAGE = 4096
BOUND = ["reconcile.bound_s=1"]


def command(server, *arguments):
    done = subprocess.run([sluicelib.BINARY, "reconcile", "--url",
                           f"http://127.0.0.1:{server.port}", "--data", server.data, *arguments],
                          text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=sluicelib.GUARD_S)
    return done.returncode, done.stdout, done.stderr


def flip(path, at, bit):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))


def metric(server, name):
    for line in server.get("/metrics").body.decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


def says_damage(server):
    """All of them, sooner or later."""
    ready = server.get("/readyz")
    assert ready.status == 503 and ready.json()["code"] == "degraded", ready
    assert "ledger is damaged" in ready.json()["detail"], ready.json()
    assert "ledger.damaged" in server.log()
    eventually(lambda: metric(server, "sluice_ledger_damage") > 0, "the metric")
    with server.events("/v1/admin/live", server.admin_token) as events:
        live = json.loads(events.next().data)
    assert live["ledger_damage"] in ready.json()["detail"]


def sold_out(make_server):
    """A server with some orders, and what it says about them."""
    server = make_server(sets=BOUND)
    shop = Shop(server)
    lots = [shop.lot(total=40, limit=0), shop.lot(total=40, limit=1)]
    users = [shop.user() for _ in range(12)]
    for i, user in enumerate(users):
        order = shop.order_locked(user, lots[i % 2].item)["order_id"]
        if i % 3 == 0:
            shop.paid(order, lots[i % 2].price)
        elif i % 3 == 1:
            shop.cancelled(user, order)
    return server, users


def told(server, users):
    """Every order as buyers and operators see it; None where the answer is an error."""
    answers = {}
    for user in users:
        response = server.get("/v1/me/orders", server.token(user))
        answers[user] = response.json()["orders"] if response.status == 200 else None
    response = server.admin("GET", "/orders?limit=500")
    answers["all"] = response.json()["orders"] if response.status == 200 else None
    return answers


def sure(done):
    return None if "Not sure" in done[1] else done


def test_a_sound_ledger(make_server):
    server, _ = sold_out(make_server)
    # On a busy machine a comparison may be unsure; then the command says so and is run again.
    code, out, err = eventually(lambda: sure(command(server, "--integrity")), "a sure comparison")
    assert code == 0 and "No damage in the ledger" in out, (out, err)
    code, out, err = command(server, "--integrity", "--json")
    answer = json.loads(out)
    assert answer["integrity"] == {"damaged": 0, "first": None} and answer["orders"] == 12
    assert metric(server, "sluice_ledger_damage") == 0
    assert "ledger.checked" in server.log()


def test_bits_that_flipped_while_the_server_was_down(make_server):
    print(f"SLUICE_SEED={SEED}")
    draw = random.Random(SEED)
    server, users = sold_out(make_server)
    before = told(server, users)
    assert None not in before.values() and len(before["all"]) == 12
    server.stop()
    path = f"{server.data}/ledger.db"
    shutil.copyfile(path, f"{path}.sound")
    met = {"refused": 0, "told": 0}
    for _ in range(8):
        shutil.copyfile(f"{path}.sound", path)
        at, bit = draw.randrange(os.path.getsize(path)), draw.randrange(8)
        flip(path, at, bit)
        server.spawn()
        eventually(lambda: server.process.poll() is not None or answers(server), "an answer")
        if server.process.poll() is not None:
            assert server.wait_exit() != 0
            met["refused"] += 1
            continue
        says_damage(server)
        now = told(server, users)
        for key, answer in now.items():
            assert answer is None or answer == before[key], (at, bit, key, answer, before[key])
        code, out, err = command(server, "--integrity")
        assert code == 1 and ("DAMAGED" in out or "ledger" in err), (out, err)
        met["told"] += 1
        server.stop()
    print(met)
    assert sum(met.values()) == 8
    os.remove(f"{path}.sound")


def answers(server):
    try:
        return server.get("/livez").status == 200
    except (OSError, sluicelib.ProtocolError):
        return False


def test_a_bit_that_flips_while_the_server_runs(make_server):
    server, _ = sold_out(make_server)
    server.restart()  # all of it is in the file, not in the WAL
    path = f"{server.data}/ledger.db"
    # In many pages: the server may write one of them again, which ends its damage.
    for page in range(4, os.path.getsize(path) // PAGE):
        flip(path, page * PAGE + PAGE // 2, 3)
    eventually(lambda: server.get("/readyz").status == 503, "the timer to find it")
    says_damage(server)
    code, out, err = command(server)
    assert code == 1 and "ledger_damage" in out, (out, err)
    code, out, err = command(server, "--integrity")
    assert code == 1 and "DAMAGED" in out and "page" in out, (out, err)


@pytest.mark.skipif(marialib.missing() != "", reason=f"not installed: {marialib.missing()}")
def test_tables_of_mariadb_are_checked_on_demand(make_server):
    """InnoDB would end its server over a damaged page. A table of another engine among the ledger's
    stands for one of them."""
    with marialib.MariaDB() as mariadb:
        database = mariadb.database()
        server = make_server(sets=BOUND, database=database)
        shop = Shop(server)
        shop.order_locked(1, shop.lot().item)
        code, out, err = command(server, "--integrity")
        assert code == 0 and "No damage in the ledger" in out, (out, err)
        mariadb.run("CREATE TABLE odd(x INT, KEY(x)) ENGINE = MyISAM;"
                    "INSERT INTO odd SELECT seq FROM seq_1_to_5000; FLUSH TABLES", database.name)
        for end in ("MYD", "MYI"):
            path = f"{mariadb.folder}/data/{database.name}/odd.{end}"
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) // 2)
                file.write(b"\xff" * 2000)
        code, out, err = command(server, "--integrity")
        assert code == 1 and "DAMAGED" in out and "odd" in out, (out, err)
        says_damage(server)
        server.stop()
