"""The program and nginx accept the files in deploy/, and script/cluster does what its help says."""
import glob
import json
import os
import shutil
import signal
import subprocess
import types

import pytest

import cluster as script
import clusterlib
import marialib
import proclib
import serverlib
import sluicelib

FOLDER = os.path.join(sluicelib.ROOT, "deploy")
CONFIGURATIONS = sorted(glob.glob(f"{FOLDER}/*.conf") + glob.glob(f"{FOLDER}/many/*.conf"))
CONFIGURATIONS.remove(f"{FOLDER}/nginx.conf")
CLUSTER = os.path.join(sluicelib.ROOT, "script/cluster")


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=os.path.basename)
def test_an_example_is_a_configuration(path):
    code, out, err = sluicelib.run("check-config", path)
    assert code == 0, out + err


def test_every_role_has_an_example():
    roles = {os.path.basename(path) for path in glob.glob(f"{FOLDER}/many/*.conf")}
    assert roles == {"front.conf", "relay.conf", "booker.conf", "keeper.conf"}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
@pytest.mark.parametrize("name", ("sluice.service", "sluice@.service"))
def test_a_unit_is_one_that_systemd_takes(name, tmp_path):
    with open(f"{FOLDER}/systemd/{name}", encoding="utf-8") as file:
        text = file.read()
    assert "ExecStart=/usr/local/bin/sluice serve --config /etc/sluice/" in text
    (tmp_path / name).write_text(text.replace("/usr/local/bin/sluice",
                                              os.path.abspath(sluicelib.BINARY)))
    done = subprocess.run(["systemd-analyze", "verify", str(tmp_path / name)], text=True,
                          capture_output=True, timeout=sluicelib.GUARD_S)
    assert done.returncode == 0 and name.split(".")[0] not in done.stderr, done.stderr


@pytest.mark.skipif(not marialib.find("nginx"), reason="no nginx")
def test_nginx_speaks_for_a_front_that_is_gone(make_server, tmp_path):
    """Its refusal is one of the contract: a buyer may come again with the same ticket."""
    server = make_server()
    lot = sluicelib.Shop(server).lot(total=5)
    nginx = proclib.Nginx("nginx", str(tmp_path / "nginx"), [server.address])
    try:
        nginx.start()
        door = clusterlib.Door(nginx.address, server.data)
        shop = sluicelib.Shop(door)
        ticket = shop.ticket(1, lot.item)
        assert shop.order_locked(2, lot.item)["status"] == "LOCKED"
        server.kill()
        sluicelib.problem(shop.buy(1, ticket), 503, "degraded", "same-ticket")
        sluicelib.problem(door.get(f"/v1/items/{lot.item}"), 503, "degraded", "later")
        server.start()
        answer = sluicelib.eventually(lambda: (a := shop.buy(1, ticket)).status != 503 and a,
                                      "the front to be asked again")
        assert answer.status in (200, 202), answer
    finally:
        nginx.discard()


@pytest.mark.skipif(not marialib.find("nginx"), reason="no nginx")
def test_nginx_serves_clients_of_http_1_0(make_server, tmp_path):
    """They need not name a host."""
    server = make_server()
    nginx = proclib.Nginx("nginx", str(tmp_path / "nginx"), [server.address])
    try:
        nginx.start()
        for head in (b"GET /v1/time HTTP/1.0\r\n", b"GET /v1/time HTTP/1.0\r\nHost: shop.test\r\n",
                     b"HEAD / HTTP/1.0\r\n"):
            with sluicelib.Conn(nginx.address) as conn:
                conn.send(head + b"\r\n")
                answer = conn.read_response("HEAD" if head.startswith(b"HEAD") else "GET")
                assert answer.status == 200, (head, answer)
    finally:
        nginx.discard()


@pytest.mark.skipif(not marialib.find("nginx"), reason="no nginx")
@pytest.mark.parametrize("heeds", [True, False])
def test_streams_come_through_nginx_as_they_happen(make_server, tmp_path, heeds):
    """By its configuration alone, and with a configuration of somebody's own by our header alone."""
    server = make_server()
    shop = sluicelib.Shop(server)
    lot = shop.lot(total=5)
    nginx = proclib.Nginx("nginx", str(tmp_path / "nginx"), [server.address])
    prepare = nginx.prepare

    def prepared():
        prepare()
        path = tmp_path / "nginx" / "nginx.conf"
        text = path.read_text()
        assert "proxy_buffering off;" in text
        path.write_text(text.replace("proxy_buffering off;", "") if heeds else
                        text.replace("proxy_buffering off;", "proxy_buffering off;"
                                     " proxy_ignore_headers X-Accel-Buffering;"))

    nginx.prepare = prepared
    try:
        nginx.start()
        door = clusterlib.Door(nginx.address, server.data)
        order = shop.order_locked(1, lot.item)["order_id"]
        with door.events(f"/v1/orders/{order}/events", door.token(1)) as stream:
            assert json.loads(stream.next().data)["status"] == "LOCKED"  # the stream does not end here
            shop.pay(order, lot.price, "pay-1")
            assert json.loads(stream.next().data)["status"] == "PAID"
        with door.events(f"/v1/items/{lot.item}/events") as stream:
            assert json.loads(stream.next().data)["available"] == 4
    finally:
        nginx.discard()


# ---------------------------------------------------------------- script/cluster

def cluster(what, folder, *more):
    done = subprocess.run([CLUSTER, what, "--dir", str(folder), *map(str, more)], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                          env=dict(os.environ, SLUICE=sluicelib.BINARY))
    return done.returncode, done.stdout, done.stderr


def pids(folder):
    """name -> pid of every member that has a pid file."""
    found = {}
    for path in glob.glob(f"{folder}/*/member.pid"):
        with open(path, encoding="ascii") as file:
            found[os.path.basename(os.path.dirname(path))] = int(file.read().split()[0])
    return found


def sells(door, item):
    """Whether the front that nginx chooses this time has the item on sale."""
    answer = door.get(f"/v1/items/{item}")
    return answer.status == 200 and answer.json()["state"] == "open"


@pytest.mark.parametrize("alive,asked,demo", [
    ((), False, False),            # a start from nothing is as it is asked for
    ((), True, True),
    (("redis1",), False, True),    # the fronts died beside the rest: they are as they were
    (("redis1", "front1"), False, True),
])
def test_a_cluster_remembers_its_demonstration(tmp_path, monkeypatch, alive, asked, demo):
    members = {name: types.SimpleNamespace(alive=lambda name=name: name in alive)
               for name in ("redis1", "nginx", "front1", "front2")}
    monkeypatch.setattr(script, "stage_of", lambda options: types.SimpleNamespace(members=members))
    options = types.SimpleNamespace(dir=str(tmp_path), port=None, demo=asked)
    script.keep(options, 8091, True)
    assert script.settle(options) == (8091, demo)


@pytest.mark.skipif(serverlib.missing() != "", reason=f"not installed: {serverlib.missing()}")
def test_a_cluster_goes_up_and_down(tmp_path):
    folder = tmp_path / "cluster"
    code, out, _ = cluster("status", folder)
    assert code == 1 and "nothing in" in out
    assert cluster("down", folder)[0] == 0
    try:
        port = sluicelib.private_port()
        code, out, err = cluster("up", folder, "--port", port)
        assert code == 0, out + err
        assert f"http://127.0.0.1:{port}/" in out and "admin.token" in out
        told = [line.removeprefix("cluster: starting ") for line in err.splitlines()]
        assert sorted(told) == sorted(pids(folder)), err  # a line for each
        code, out, _ = cluster("status", folder)
        assert code == 0 and len(out.splitlines()) == 17, out
        assert all(line.split()[-1] == "ready" for line in out.splitlines()), out
        # Any front sells.
        door = clusterlib.Door(("127.0.0.1", port), f"{folder}/secrets")
        lot = sluicelib.Shop(door).lot(total=5)
        # The other front hears of it a moment later.
        sluicelib.eventually(lambda: all(sells(door, lot.item) for _ in range(4)), "both fronts")
        for user in range(1, 6):
            sluicelib.Shop(door).order_locked(user, lot.item)
        # Again: nothing is started twice; one that died is started again.
        before = pids(folder)
        assert cluster("up", folder)[0] == 0 and pids(folder) == before
        # Another port, or the demonstration, is refused while it runs, and changes nothing.
        other = sluicelib.private_port()
        code, out, err = cluster("up", folder, "--port", other)
        assert (code, out) == (1, "") and f"runs on port {port}; `script/cluster down` first" in err
        code, out, err = cluster("up", folder, "--demo")
        assert (code, out) == (1, "") and "without --demo; `script/cluster down` first" in err
        assert cluster("up", folder, "--port", port)[0] == 0 and pids(folder) == before
        os.killpg(before["relay1"], signal.SIGKILL)
        code, out, _ = cluster("status", folder)
        assert code == 1 and out.count("ready") == 16, out
        assert cluster("up", folder)[0] == 0
        after = pids(folder)
        assert {name for name in after if after[name] != before[name]} == {"relay1"}
    finally:
        code, out, err = cluster("down", folder)
    assert code == 0, out + err
    states = [(proclib.process_state(pid) or "X")[0] for pid in after.values()]
    assert pids(folder) == {} and set(states) <= {"X", "Z"}, states  # an orphan is reaped late
    assert cluster("clean", folder)[0] == 0 and not folder.exists()
