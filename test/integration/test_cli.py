"""The command line: configuration, its documents, and what operators do with sales and orders."""
import json
import os
import re
import signal
import socket
import subprocess
import threading

import pytest

from sluicelib import (BINARY, GUARD_S, MAX_ID, ROOT, Shop, eventually, item_json, private_port,
                       problem, run)

COMMANDS = ["serve", "sale", "order", "block", "pages", "token", "journal", "bench", "check-config", "version"]
MOVES = ["warm", "open", "pause", "close"]


def cli(server, *arguments, stdin=None):
    """A command that talks to this server: (exit code, stdout, stderr)."""
    done = subprocess.run(
        [BINARY, *map(str, arguments), "--data", server.data,
         "--url", f"http://127.0.0.1:{server.port}"],
        input=stdin, stdin=subprocess.DEVNULL if stdin is None else None, capture_output=True,
        text=True, timeout=GUARD_S)
    return done.returncode, done.stdout, done.stderr


def done(result):
    code, out, err = result
    assert code == 0, (code, out, err)
    return out


def refused(result, *words):
    code, out, err = result
    assert code == 1 and not out, (code, out, err)
    assert err.startswith("sluice "), err
    for word in words:
        assert word in err, err


# ---------------------------------------------------------------- help and usage

def test_help_names_every_command():
    code, out, _ = run("--help")
    assert code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", out, re.M), name


@pytest.mark.parametrize("arguments", [[name] for name in COMMANDS] + [
    ["sale", name] for name in ["create", "list", "show", "report", *MOVES]] + [["order", "list"]],
    ids=" ".join)
def test_every_command_has_help(arguments):
    code, out, err = run(*arguments, "--help")
    assert code == 0 and out.startswith("Usage: sluice") and not err, (out, err)


@pytest.mark.parametrize("arguments", [
    ["sale"], ["sale", "nonsense"], ["sale", "show"], ["sale", "show", "x"], ["sale", "show", "0"],
    ["sale", "show", "1", "2"], ["sale", "show", str(2**53)], ["sale", "list", "1"],
    ["sale", "create"], ["sale", "list", "--file", "x"], ["sale", "list", "--nonsense"],
    ["sale", "list", "--url"], ["order"], ["order", "a", "b"], ["order", "a/b"], ["order", "a?b"],
    ["order", "ABC", "--sale", "1"], ["order", "list", "--sale", "1&user=2"],
    ["order", "list", "--nonsense"], ["check-config"], ["check-config", "a", "b"],
    ["check-config", "--nonsense"], ["version", "x"], ["token", "--admin", "--user", "1"]],
    ids=" ".join)
def test_wrong_usage_is_exit_2(arguments):
    code, out, err = run(*arguments)
    assert code == 2 and err.startswith("sluice ") and not out, (code, out, err)


def test_version():
    code, out, _ = run("version")
    assert code == 0 and re.fullmatch(r"sluice \d+\.\d+\.\d+\n", out)
    code, told, _ = run("version", "--json")
    assert code == 0 and "sluice " + json.loads(told)["version"] + "\n" == out


def test_tokens_for_programs(server):
    code, out, _ = run("token", "--user", 7, "--ttl", 60, "--data", server.data, "--json")
    told = json.loads(out)
    assert code == 0 and told["user_id"] == 7
    assert 50_000 < told["expires_at_ms"] - server.now_ms() <= 61_000
    assert server.get("/v1/me/orders", told["token"]).status == 200
    code, out, _ = run("token", "--admin", "--data", server.data, "--json")
    assert code == 0 and json.loads(out) == {"token": server.admin_token}


# ---------------------------------------------------------------- configuration

def printed(*arguments):
    code, out, err = run("serve", *arguments, "--print-config")
    assert code == 0 and not err, err
    return out


def test_the_documents_show_what_the_program_prints():
    example = printed()
    with open(os.path.join(ROOT, "docs/sluice.example.conf")) as file:
        assert file.read() == example, "sluice serve --print-config > docs/sluice.example.conf"
    with open(os.path.join(ROOT, "docs/CONFIGURATION.md")) as file:
        assert "```\n" + example + "```\n" in file.read(), "docs/CONFIGURATION.md is behind"


def test_the_printed_configuration_is_one(tmp_path):
    first = printed("--set", "gate.items=7", "--listen", "127.0.0.1:1", "--data", "/x \"y\" ${Z}")
    path = tmp_path / "a.conf"
    path.write_text(first)
    assert run("check-config", path) == (0, "ok\n", "")
    assert printed("--config", path) == first
    assert "items = 7" in first and 'listen = "127.0.0.1:1"' in first


@pytest.mark.parametrize("text,place", [
    ("server {\n  # a comment\n  threads = 65\n}\n", ":3: server.threads: "),
    ("server {\n  threads = x\n}\n", ":2: server.threads: "),
    ("\nserver {\n  thraeds = 1\n}\n", ":3: server.thraeds: no such setting; did you mean"),
    ("\n\nsrever {\n}\n", ":3: srever: no such section; did you mean server?"),
    ("server {\n  threads = 1\n", ":1: this section is not closed"),
    ("server {\n  threads 1\n}\n", ":2: ")])
def test_a_wrong_file_is_refused_with_its_line(tmp_path, text, place):
    path = tmp_path / "wrong.conf"
    path.write_text(text)
    for arguments in (["check-config", path], ["serve", "--config", path],
                      ["serve", "--config", path, "--print-config"]):
        code, out, err = run(*arguments)
        assert code == 1 and not out, (code, out)
        assert f"{path}{place}" in err, err


def test_a_missing_file_is_refused_by_name(tmp_path):
    for path in (tmp_path / "none.conf", tmp_path):
        for arguments in (["serve", "--config", path], ["check-config", path]):
            code, out, err = run(*arguments)
            assert code == 1 and not out and str(path) in err, (code, out, err)


def test_a_wrong_option_beside_a_wrong_file_is_usage(tmp_path):
    path = tmp_path / "none.conf"
    for option in (["--set", "server.threads=x"], ["--listen", "x"], ["--nonsense"]):
        for more in ([], ["--print-config"]):
            assert run("serve", "--config", path, *option, *more)[0] == 2
    # Settings that contradict each other: the command line's own fault where there is no file.
    alone = ["serve", "--set", "spool.line_s=30", "--set", "relay.stale_s=30"]
    assert run(*alone)[0] == 2
    path.write_text("")
    assert run(*alone, "--config", path)[0] == 1


def test_check_config_for_programs(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("server {\n  threads = 65\n}\n")
    code, out, err = run("check-config", path, "--json")
    told = json.loads(out)
    assert code == 1 and not err and told["ok"] is False
    assert told["error"].startswith(f"{path}:2: server.threads: ")
    path.write_bytes(b"\xff\xfe = 1\n")
    code, out, _ = run("check-config", "--json", path)
    assert code == 1 and json.loads(out)["ok"] is False
    path.write_text("")
    code, out, _ = run("check-config", "--json", path)
    assert code == 0 and json.loads(out) == {"ok": True}
    code, out, err = run("check-config", path, "--help")
    assert code == 0 and out.startswith("Usage: sluice check-config") and not err


def ttl_s(server, shop, item):
    ticket = shop.ticket(shop.user(), item)
    return round((ticket["expires_at_ms"] - server.now_ms()) / 1000)


def hang_up(server, text):
    """SIGHUP, and the log's next line with this event."""
    before = server.log().count(text)
    server.signal(signal.SIGHUP)
    eventually(lambda: server.log().count(text) > before, text)
    return [line for line in server.log().splitlines() if text in line][-1]


def test_sighup_takes_over_what_may_change(make_server, tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("ticket { ttl_s = 1000 }\n")
    server = make_server(extra=["--config", str(path)])
    shop = Shop(server)
    lot = shop.lot(total=10, limit=0)
    assert 900 < ttl_s(server, shop, lot.item) <= 1000
    path.write_text("ticket { ttl_s = 5000 }\ngate { items = 77 }\n")
    assert "gate.items" in hang_up(server, "config.reloaded")
    assert 4900 < ttl_s(server, shop, lot.item) <= 5000
    path.write_text("ticket { ttl_s = 0 }\n")
    assert f"{path}:1: ticket.ttl_s" in hang_up(server, "config.reload_refused")
    assert 4900 < ttl_s(server, shop, lot.item) <= 5000


def test_sighup_changes_no_cooling_time_that_was_decided(make_server, tmp_path):
    """Neither does a later start. Both kinds of end go by the setting: who cancels, who does not pay."""
    path = tmp_path / "a.conf"
    path.write_text("order { cooling_s = 3600 }\n")
    server = make_server(extra=["--config", str(path)])
    shop = Shop(server)
    lots = shop.lot(total=10, limit=0), shop.lot(total=10, limit=0, pay_within_s=1)

    def ended():
        """A buyer of each lot whose order has ended: cancelled, and expired."""
        users = shop.user(), shop.user()
        shop.cancelled(users[0], shop.order_locked(users[0], lots[0].item)["order_id"])
        order = shop.bought(users[1], shop.ticket(users[1], lots[1].item))["order_id"]
        shop.wait_status(users[1], order, "EXPIRED")
        return list(zip(users, lots))

    decided = ended()
    path.write_text("")
    hang_up(server, "config.reloaded")
    free = ended()
    for _ in range(2):
        for user, lot in decided:
            problem(shop.buy(user, shop.ticket(user, lot.item)), 409, "barred", "later")
        server.restart()
    for user, lot in free:
        shop.bought(user, shop.ticket(user, lot.item))


def test_sighup_reads_the_secrets_again(make_server):
    server = make_server()
    path = os.path.join(server.data, "admin.token")
    old, new = server.admin_token, "another-token-of-the-operator"
    with open(path, "w") as file:
        file.write(new + "\n")
    assert server.get("/v1/admin/sales", old).status == 200
    hang_up(server, "config.reloaded")
    assert server.get("/v1/admin/sales", new).status == 200
    assert server.get("/v1/admin/sales", old).status == 401
    assert run("token", "--admin", "--data", server.data) == (0, new + "\n", "")


# ---------------------------------------------------------------- sales

@pytest.fixture
def sale_file(shop, tmp_path):
    def make(**more):
        path = tmp_path / "sale.json"
        path.write_text(json.dumps(shop.sale_json([item_json(name="键盘"), item_json()], **more)))
        return path
    return make


@pytest.mark.asan
def test_a_sale_is_created_from_a_file_and_from_stdin(server, sale_file):
    path = sale_file(name="From a file")
    made = json.loads(done(cli(server, "sale", "create", "--file", path, "--json")))
    assert (made["name"], made["state"], len(made["items"])) == ("From a file", "draft", 2)
    out = done(cli(server, "sale", "create", "--file", "-", stdin=path.read_text()))
    assert "From a file" in out and "draft" in out and "键盘" in out


@pytest.mark.asan
def test_a_sale_is_moved_listed_shown_and_reported(server, shop, sale_file):
    made = json.loads(done(cli(server, "sale", "create", "--file", sale_file(), "--json")))
    sale = made["id"]
    for move, state in zip(MOVES, ["warm", "open", "paused", "closed"]):
        moved = json.loads(done(cli(server, "sale", move, sale, "--json")))
        assert moved["state"] in (state, "open" if state == "warm" else state)
        assert state == "warm" or shop.sale(sale)["state"] == state
    shown = done(cli(server, "sale", "show", sale))
    assert made["name"] in shown and "closed" in shown and "键盘" in shown
    assert json.loads(done(cli(server, "sale", "show", sale, "--json"))) == shop.sale(sale)
    listed = done(cli(server, "sale", "list"))
    assert re.search(rf"^ *{sale}  closed .*  {re.escape(made['name'])}$", listed, re.M), listed
    assert sale in [s["id"] for s in
                    json.loads(done(cli(server, "sale", "list", "--json")))["sales"]]
    report = json.loads(done(cli(server, "sale", "report", sale, "--json")))
    assert report["sale_id"] == sale
    text = done(cli(server, "sale", "report", sale))
    assert re.search(rf"^sale id +{sale}$", text, re.M)
    assert re.search(r"^paid +0\.00$", text, re.M) and "_cents" not in text, text
    assert re.search(r"^sell through +0\.0 %$", text, re.M), text


def test_all_sales_are_listed_however_many(make_server):
    server = make_server()
    shop = Shop(server)
    ids = [shop.create_sale()["id"] for _ in range(205)]  # a page has 200
    told = json.loads(done(cli(server, "sale", "list", "--json")))
    assert [sale["id"] for sale in told["sales"]] == ids and told["next"] is None
    assert len(done(cli(server, "sale", "list")).splitlines()) == len(ids) + 1


def test_a_refusal_is_printed_with_its_code(server, shop, sale_file, tmp_path):
    refused(cli(server, "sale", "show", MAX_ID), "not_found")
    sale = shop.lot(state="open").sale
    shop.moved(sale, "close")
    refused(cli(server, "sale", "open", sale), "bad_state")
    refused(cli(server, "sale", "create", "--file", sale_file(pay_within_s=0)),
            "bad_request", "pay_within_s")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"name": "x",\n "name": "y"}')
    refused(cli(server, "sale", "create", "--file", wrong), f"{wrong}:2:")
    refused(cli(server, "sale", "create", "--file", tmp_path / "none.json"), "none.json")
    refused(cli(server, "sale", "create", "--file", "-", stdin=""), "stdin")


# ---------------------------------------------------------------- orders

def test_orders_are_shown_and_listed(server, shop):
    lot = shop.lot(total=10, limit=0, price=1234)
    user = shop.user()
    paid = shop.order_locked(user, lot.item)["order_id"]
    shop.paid(paid, 1234)
    other = shop.order_locked(user, lot.item, 2)["order_id"]
    shown = json.loads(done(cli(server, "order", paid, "--json")))
    assert (shown["order_id"], shown["status"], shown["user_id"]) == (paid, "PAID", user)
    text = done(cli(server, "order", paid))
    assert re.search(r"^status +PAID$", text, re.M) and re.search(r"^amount +12\.34$", text, re.M)
    assert re.search(r"Z +LOCKED$", text, re.M), "the history"
    text = done(cli(server, "order", "list", "--sale", lot.sale, "--user", user))
    assert paid in text and other in text and "24.68" in text
    text = done(cli(server, "order", "list", "--user", user, "--status", "PAID"))
    assert paid in text and other not in text
    code, out, err = cli(server, "order", "list", "--sale", lot.sale, "--limit", 1)
    assert code == 0 and other in out and paid not in out
    after = re.search(r"--after (\S+)", err).group(1)
    assert paid in done(cli(server, "order", "list", "--sale", lot.sale, "--after", after))
    refused(cli(server, "order", "no-such-order"), "not_found")
    refused(cli(server, "order", "list", "--status", "NONSENSE"), "bad_request", "status")


# ---------------------------------------------------------------- servers that are not there, or not ours

def test_no_server_no_token_no_url(server, tmp_path):
    code, _, err = run("sale", "list", "--data", server.data,
                       "--url", f"http://127.0.0.1:{private_port()}")
    assert code == 1 and "refused" in err
    code, _, err = run("sale", "list", "--data", tmp_path)
    assert code == 1 and "admin.token" in err
    for url in ("https://127.0.0.1:1", "127.0.0.1:1", "http://", "http://x:99999", "http://x/y"):
        code, _, err = run("sale", "list", "--data", server.data, "--url", url)
        assert code == 1 and "--url" in err, err


def test_a_wrong_token_is_refused(server, tmp_path):
    (tmp_path / "admin.token").write_text("a-token-of-some-other-server\n")
    code, _, err = run("sale", "list", "--data", tmp_path, "--url",
                       f"http://127.0.0.1:{server.port}")
    assert code == 1 and "unauthenticated" in err


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("answer,works", [
    (OK + b"Content-Length: 12\r\n\r\n{\"sales\":[]}", True),
    (OK + b"\r\n{\"sales\":[]}", True),
    (OK + b"content-length:\t12\r\n\r\n{\"sales\":[]}and more", True),
    (OK + b"Content-Length: 13\r\n\r\n{\"sales\":[]}", False),
    (OK + b"Content-Length: x\r\n\r\n{\"sales\":[]}", False),
    (OK + b"Transfer-Encoding: chunked\r\n\r\nc\r\n{\"sales\":[]}\r\n0\r\n\r\n", False),
    (OK + b"Content-Length: 5\r\n\r\nhello", False),
    (OK + b"Content-Le", False),
    (b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno", False),
    (b"HTTP/1.1 409 No\r\n\r\n{\"detail\":\"no code\"}", False),
    (b"SSH-2.0-other\r\n", False), (b"\r\n\r\n", False), (b"", False)], ids=repr)
def test_answers_of_strangers(server, answer, works):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        code, out, err = run("sale", "list", "--json", "--data", server.data,
                             "--url", f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join(GUARD_S)
    if works:
        assert code == 0 and json.loads(out) == {"sales": []}, err
    else:
        assert code == 1 and not out and err.startswith("sluice sale list: "), (code, out, err)
