"""First start, secrets, tokens by command, two servers at once, stopping, starting again."""
import contextlib
import os
import re
import shutil
import signal
import socket
import sqlite3
import tempfile
import time

import pytest

from sluicelib import (DISTRIBUTED, Background, Conn, Server, Shop, eventually, problem,
                       request_bytes, run)


# ---------------------------------------------------------------- secrets and tokens

def test_first_start_makes_the_secrets(server):
    for name in ("jwt.key", "webhook.key", "ticket.key", "admin.token"):
        path = os.path.join(server.data, name)
        assert os.stat(path).st_mode & 0o777 == 0o600, name
        with open(path) as file:
            text = file.read()
        assert re.fullmatch(r"[A-Za-z0-9_-]+\n?", text), f"{name} is not one line of base64url"
    assert len(server.secret_bytes("jwt.key")) == 32
    assert len(server.secret_bytes("webhook.key")) == 32
    assert len(server.secret_bytes("ticket.key")) >= 16
    assert len(server.secret("admin.token")) >= 20
    secrets = {server.secret(n) for n in ("jwt.key", "webhook.key", "ticket.key", "admin.token")}
    assert len(secrets) == 4


def test_two_servers_have_different_secrets(server, make_server):
    other = make_server()
    for name in ("jwt.key", "webhook.key", "ticket.key", "admin.token"):
        assert other.secret(name) != server.secret(name)


def test_secrets_stay_and_given_ones_are_used(make_server):
    server = make_server(start=False)
    os.makedirs(server.data, exist_ok=True)
    key = "A" * 42 + "E"
    with open(os.path.join(server.data, "jwt.key"), "w") as file:
        file.write(key + "\n")
    os.chmod(os.path.join(server.data, "jwt.key"), 0o600)
    server.start()
    assert server.secret("jwt.key") == key
    assert server.get("/v1/me/orders", server.token(7)).status == 200
    before = {n: server.secret(n) for n in ("jwt.key", "webhook.key", "ticket.key", "admin.token")}
    server.restart()
    assert {n: server.secret(n) for n in before} == before


@pytest.mark.parametrize("name,text", [("jwt.key", ""), ("jwt.key", "short"), ("jwt.key", "!" * 43),
                                       ("webhook.key", "short"), ("ticket.key", "!")])
def test_a_broken_secret_is_refused_at_start(make_server, name, text):
    server = make_server(start=False)
    os.makedirs(server.data, exist_ok=True)
    with open(os.path.join(server.data, name), "w") as file:
        file.write(text)
    os.chmod(os.path.join(server.data, name), 0o600)
    assert server.refused_start() == 1, server.log()
    assert name in server.log()


def test_a_missing_data_folder_is_made(make_server, tmp_path):
    server = make_server(data=str(tmp_path / "new"))
    assert os.path.exists(os.path.join(server.data, "jwt.key"))
    assert server.get("/v1/sales").json() == {"sales": []}


def test_the_token_command_makes_buyers_tokens(server):
    code, out, _ = run("token", "--user", 77, "--data", server.data)
    assert code == 0 and out.count("\n") == 1
    assert server.get("/v1/me/orders", out.strip()).status == 200
    lot = Shop(server).lot()
    order = Shop(server).order_locked(77, lot.item)["order_id"]
    assert server.get(f"/v1/orders/{order}", out.strip()).status == 200
    code, out, _ = run("token", "--user", 77, "--ttl", 600, "--data", server.data)
    assert code == 0
    assert server.get("/v1/me/orders", out.strip()).status == 200


def test_the_token_command_keeps_the_time_to_live(server):
    code, out, _ = run("token", "--user", 77, "--ttl", 1, "--data", server.data)
    assert code == 0
    claims = out.split(".")[1]
    assert claims
    eventually(lambda: server.get("/v1/me/orders", out.strip()).status == 401, "the token's end",
               guard_s=180)


def test_the_token_command_prints_the_admin_token(server):
    code, out, _ = run("token", "--admin", "--data", server.data)
    assert code == 0 and out.strip() == server.secret("admin.token")


@pytest.mark.parametrize("arguments", [
    ["token"], ["token", "--user"], ["token", "--user", "0"], ["token", "--user", "-1"],
    ["token", "--user", "x"], ["token", "--user", str(2**53)], ["token", "--nonsense"],
    ["token", "--user", "1", "--ttl", "0"], ["token", "--user", "1", "--ttl", "x"],
    ["nonsense"], [], ["serve", "--nonsense"], ["serve", "--listen"], ["serve", "stray"]],
    ids=" ".join)
def test_wrong_usage_is_exit_2(server, arguments):
    code, out, err = run(*arguments)
    assert code == 2, (code, out, err)
    assert err.strip(), "wrong usage is told on stderr"


def test_no_secrets_no_token(tmp_path):
    code, _, err = run("token", "--user", 7, "--data", tmp_path / "nothing")
    assert code == 1 and err.strip()


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["token", "--help"],
                                       ["version"], ["version", "--help"]], ids=" ".join)
def test_help_and_version_are_exit_0(arguments):
    code, out, err = run(*arguments)
    assert code == 0 and out.strip(), (code, out, err)


@pytest.mark.parametrize("setting", ["nonsense.key=1", "server.nonsense=1", "server.threads=x",
                                     "server.threads=-1", "server.threads=100000", "server.threads",
                                     "ticket.ttl_s=0", "ticket.ttl_s=1.5", "=", ""])
def test_a_wrong_setting_is_refused_by_name(make_server, setting):
    server = make_server(start=False, sets=[setting])
    assert server.refused_start() in (1, 2), server.log()
    key = setting.split("=")[0]
    assert key in server.log()


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x",
                                    "999.0.0.1:80", ""])
def test_a_wrong_address_is_refused(tmp_path, listen):
    code, _, err = run("serve", "--listen", listen, "--data", tmp_path)
    assert code in (1, 2) and err.strip()


# ---------------------------------------------------------------- two servers

@pytest.mark.asan
def test_a_second_server_on_the_same_data_is_refused(server):
    second = Server(data=server.data)
    try:
        assert second.refused_start() == 1, second.log()
        assert server.data in second.log(), "the refusal names the folder"
        assert server.get("/readyz").status == 200
        shop = Shop(server)
        lot = shop.lot()
        shop.order_locked(shop.user(), lot.item)
    finally:
        second.discard()


def test_a_second_server_on_the_same_port_is_refused(server):
    second = Server(port=server.port)
    try:
        second.spawn()    # its port answers already: only its end can be waited for
        assert second.wait_exit() == 1, second.log()
        assert str(server.port) in second.log(), "the refusal names the port"
        assert server.get("/readyz").status == 200
    finally:
        second.discard()


def test_a_port_another_program_holds_is_refused(make_server):
    server = make_server(start=False)
    with socket.socket() as other:
        other.bind(server.address)
        other.listen()
        server.spawn()
        assert server.wait_exit() == 1, server.log()
        assert str(server.port) in server.log()
    server.start()


# ---------------------------------------------------------------- stopping

@pytest.mark.asan
def test_sigterm_ends_with_open_connections_streams_and_polls(make_server):
    server = make_server(sets=["server.drain_ms=500"])  # which a held poll takes
    shop = Shop(server)
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    idle = [server.conn() for _ in range(5)]
    half = server.conn()
    half.send("GET /v1/ti")
    stream = server.events(f"/v1/items/{lot.item}/events")
    watch = server.events(f"/v1/orders/{order}/events", server.token(user))
    live = server.events("/v1/admin/live", server.admin_token)
    poll = server.conn()
    poll.send(request_bytes("GET", f"/v1/orders/{order}?wait_ms=30000&status=LOCKED",
                            {"Authorization": f"Bearer {server.token(user)}"}))
    server.signal(signal.SIGTERM)
    assert server.wait_exit() == 0, server.log()
    # Every connection was closed, none left open.
    for conn in idle + [half, stream.conn, watch.conn, live.conn, poll]:
        conn.read_to_close()
        conn.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_exit_0(make_server, number):
    server = make_server()
    server.signal(number)
    assert server.wait_exit() == 0, server.log()


def test_what_was_promised_before_sigterm_is_kept(make_server):
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(total=200, limit=0)
    user = shop.user()
    tickets = [shop.ticket(user, lot.item) for _ in range(100)]
    fields = {"Authorization": f"Bearer {server.token(user)}"}
    conn = server.conn()
    conn.send(b"".join(request_bytes("POST", t["buy_url"], fields) for t in tickets))
    first = conn.read_response()
    assert first.status in (200, 202)
    server.signal(signal.SIGTERM)
    told = [first]
    try:
        while conn.buffer or conn.fill():
            told.append(conn.read_response())
    except AssertionError:
        pass    # cut in the middle of an answer: not told
    conn.close()
    assert server.wait_exit() == 0, server.log()
    won = [a.json()["order_id"] for a in told if a.status in (200, 202)]
    for answer in told:
        if answer.status not in (200, 202):
            problem(answer, 503, ("draining", "degraded") if DISTRIBUTED else "draining")
    server.start()
    for order in won:
        shop.wait_status(user, order, "LOCKED")
    eventually(lambda: len(won) <= shop.item_now(lot.item)["locked"] <= 100, "what was promised")


def test_after_sigterm_no_new_connection_is_answered(make_server):
    server = make_server()
    server.signal(signal.SIGTERM)
    assert server.wait_exit() == 0
    with pytest.raises(OSError):
        Conn(server.address)


def test_it_can_be_started_again_on_the_same_port_at_once(make_server):
    server = make_server()
    for kill in (False, True, False):
        conns = [server.conn() for _ in range(5)]
        for conn in conns:
            conn.send(request_bytes("GET", "/v1/time"))
            assert conn.read_response().status == 200
        server.restart(kill=kill)    # the server closes first: its side waits in TIME_WAIT
        assert server.get("/v1/time").status == 200
        for conn in conns:
            conn.close()


# ---------------------------------------------------------------- what survives

@pytest.mark.asan
@pytest.mark.parametrize("kill", [False, True], ids=["sigterm", "sigkill"])
def test_everything_told_survives(make_server, kill):
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(total=20, limit=5, price=100)
    one = shop.lot(total=20, limit=1, price=100)
    paused, draft = shop.lot(), shop.lot(state="draft")
    shop.moved(paused.sale, "pause")
    user = shop.user()

    locked = shop.ticket(user, lot.item)
    shop.bought(user, locked, 2)
    paid = shop.ticket(user, lot.item)
    shop.bought(user, paid, 1)
    gone = shop.ticket(user, one.item)
    shop.bought(user, gone)
    for ticket in (locked, paid, gone):
        shop.wait_status(user, ticket["order_id"], "LOCKED")
    unused = shop.ticket(user, lot.item)
    payment = {"payment_id": "p-1", "order_id": paid["order_id"], "amount_cents": 100}
    receipt = shop.payment(payment)
    assert receipt.status == 200
    shop.cancelled(user, gone["order_id"])
    assert shop.restock(lot.item, 5, "restock-1").status == 200
    shop.wait_counters(lot.item, 22, 2, 1)
    sales = server.admin("GET", "/sales").json()
    orders = {t["order_id"]: shop.order(user, t["order_id"]) for t in (locked, paid, gone)}
    mine = shop.my_orders(user).json()
    log = server.admin("GET", "/events?after=0").json()["events"]

    for _ in range(2):
        server.restart(kill=kill)
        assert server.admin("GET", "/sales").json() == sales
        assert shop.counters(lot.item) == (22, 2, 1)
        assert shop.counters(one.item) == (20, 0, 0)
        for order, before in orders.items():
            assert shop.order(user, order) == before
        assert shop.my_orders(user).json() == mine
        assert server.admin("GET", "/events?after=0").json()["events"] == log
        # The same tickets, the same orders; the same payment, the same answer.
        for ticket, qty in ((locked, 2), (paid, 1), (gone, 1)):
            again = shop.bought(user, ticket, qty)
            assert again["order_id"] == ticket["order_id"]
            assert again["status"] == orders[ticket["order_id"]]["status"]
        again = shop.payment(payment)
        assert (again.status, again.json()) == (200, receipt.json())
        problem(shop.payment(dict(payment, amount_cents=1)), 422, "different_request")
        problem(shop.pay(paid["order_id"], 100), 409, "already_paid")
        assert shop.restock(lot.item, 5, "restock-1").status == 200
        shop.item(lot.item, total=25)
        # Limits, states and ids are remembered too.
        problem(shop.buy(user, unused, 3), 409, "limit_reached", held=3, limit=5)
        assert shop.ticket(user, lot.item)["held"] == 3
        assert shop.ticket(user, one.item)["order_id"] != gone["order_id"]
        problem(shop.try_ticket(user, paused.item), 409, "not_open")
        assert shop.sale(draft.sale)["state"] == "draft"
    # A ticket from before still buys.
    assert shop.bought(user, unused, 2)["order_id"] == unused["order_id"]
    shop.paid(locked["order_id"], 200)
    shop.wait_counters(lot.item, 20, 2, 3)


def test_ids_made_after_a_restart_are_new(make_server):
    server = make_server()
    shop = Shop(server)
    seen = []
    for _ in range(3):
        sale = shop.create_sale()
        seen.append((sale["id"], sale["items"][0]["id"]))
        server.restart(kill=True)
    assert len({s for s, _ in seen}) == 3 and len({i for _, i in seen}) == 3


def test_deadlines_go_on_over_a_restart(make_server):
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(total=5, limit=1, pay_within_s=2, bar_unpaid=True)
    user = shop.user()
    order = shop.bought(user, shop.ticket(user, lot.item))
    server.kill()
    server.start()
    ended = shop.wait_status(user, order["order_id"], "EXPIRED")
    assert server.now_ms() >= ended["pay_by_ms"]
    shop.wait_counters(lot.item, 5, 0, 0)
    server.restart(kill=True)
    assert shop.counters(lot.item) == (5, 0, 0)
    assert shop.ticket(user, lot.item)["order_id"] == order["order_id"], "barred is remembered"


def test_a_start_missed_while_down_is_made_up(make_server):
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(state="warm", starts_in_ms=1500)
    starts_at_ms = shop.item(lot.item)["starts_at_ms"]
    server.kill()
    eventually(lambda: time.time() * 1000 > starts_at_ms, "the start")
    server.start()
    eventually(lambda: shop.item(lot.item)["state"] == "open", "the sale to open")
    user = shop.user()
    shop.bought(user, shop.ticket(user, lot.item))


def test_a_deleted_draft_stays_deleted(make_server):
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(state="draft")
    assert server.admin("DELETE", f"/sales/{lot.sale}").status in (200, 204)
    server.restart(kill=True)
    problem(server.admin("GET", f"/sales/{lot.sale}"), 404, "not_found")


@pytest.mark.embedded
def test_a_moved_copy_of_the_data_is_the_same_shop(make_server):
    server = make_server()
    shop = Shop(server)
    lot = shop.lot(total=5)
    user = shop.user()
    order = shop.order_locked(user, lot.item)
    server.stop()
    folder = tempfile.mkdtemp(prefix="sluice-it-")
    try:
        shutil.copytree(server.data, folder, dirs_exist_ok=True)
        copy = make_server(data=folder)
        assert Shop(copy).order(user, order["order_id"]) == order
        assert Shop(copy).counters(lot.item) == (4, 1, 0)
        copy.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- a ledger that cannot write

@pytest.fixture
def held_ledger(make_server):
    """A server, and a function that holds its ledger's write lock until called again."""
    server = make_server()
    names = []
    for folder, _, files in os.walk(server.data):
        for name in files:
            path = os.path.join(folder, name)
            # The server renames files meanwhile.
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                if file.read(15) == b"SQLite format 3":
                    names.append(path)
    if len(names) != 1:
        pytest.skip(f"not one SQLite file: {names}")
    handle = sqlite3.connect(names[0], isolation_level=None, timeout=30)

    def hold():
        try:
            handle.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            pytest.skip("the ledger lets nobody else in")

    def release():
        if handle.in_transaction:
            handle.execute("ROLLBACK")

    try:
        yield server, hold, release
    finally:
        release()
        handle.close()


def test_a_queued_order_can_be_neither_paid_nor_cancelled(held_ledger):
    server, hold, release = held_ledger
    shop = Shop(server)
    lot = shop.lot(total=5, limit=0, price=100)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    hold()
    response = shop.buy(user, ticket, 2)
    assert response.status == 202, "the promise does not wait for the ledger"
    order = ticket["order_id"]
    assert shop.order(user, order)["status"] == "QUEUED"
    assert shop.counters(lot.item) == (3, 2, 0)
    again = shop.buy(user, ticket, 2)
    assert again.status == 202 and again.json()["status"] == "QUEUED"
    problem(shop.cancel(user, order), 409, "queued", "later")
    problem(shop.pay(order, 200), 409, "queued", "later")
    beside = Shop(server.beside())
    waiting = Background(lambda: beside.get_order(user, order, "?wait_ms=30000"))
    assert shop.get_order(user, order, "?wait_ms=200").json()["status"] == "QUEUED"
    release()
    assert waiting.result().json()["status"] == "LOCKED"
    shop.paid(order, 200)
    shop.wait_counters(lot.item, 3, 0, 2)


def test_a_poll_that_names_a_status_is_held_through_queued_and_that_status(held_ledger):
    server, hold, release = held_ledger
    shop = Shop(server)
    lot = shop.lot(total=5, limit=0)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    hold()
    order = shop.bought(user, ticket)["order_id"]
    path = f"/v1/orders/{order}?wait_ms=30000&status=LOCKED"
    with server.conn() as conn:
        conn.send(request_bytes("GET", path, {"Authorization": f"Bearer {server.token(user)}"}))
        assert shop.order(user, order)["status"] == "QUEUED"
        release()
        shop.wait_status(user, order, "LOCKED")
        shop.cancelled(user, order)
        assert conn.read_response().json()["status"] == "CANCELLED"


def test_reads_and_buys_go_on_while_the_ledger_cannot_write(held_ledger):
    server, hold, release = held_ledger
    shop = Shop(server)
    lot = shop.lot(total=5, limit=0)
    users = [shop.user() for _ in range(6)]
    tickets = [(u, shop.ticket(u, lot.item)) for u in users]
    hold()
    answers = [shop.buy(u, t) for u, t in tickets]
    assert [a.status for a in answers[:5]] == [202] * 5
    problem(answers[5], 409, "sold_out", "later", available=0)
    assert shop.counters(lot.item) == (0, 5, 0)
    release()
    for user, ticket in tickets[:5]:
        shop.wait_status(user, ticket["order_id"], "LOCKED")


def test_killed_while_queued_the_order_is_booked_after_all(held_ledger):
    server, hold, release = held_ledger
    shop = Shop(server)
    lot = shop.lot(total=5, limit=1)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    hold()
    assert shop.buy(user, ticket).status == 202
    server.kill()
    release()
    server.start()
    shop.wait_status(user, ticket["order_id"], "LOCKED")
    assert shop.counters(lot.item) == (4, 1, 0)
    assert shop.bought(user, ticket)["status"] == "LOCKED"
