"""Rate limits: what a rule counts, what a refused request is told, and what a restart keeps."""
import re
import threading
import time

import pytest

import sluicelib
from sluicelib import Shop, problem

HOUR = 3600


def rule(name, **fields):
    return [f"limit.{name}.{field}={value}" for field, value in fields.items()]


def rates(response):
    """(name, remaining, reset) of the RateLimit header."""
    found = re.fullmatch(r'"([A-Za-z0-9_-]+)";r=(\d+);t=(\d+)', response.get("ratelimit") or "")
    assert found, response.headers
    return found[1], int(found[2]), int(found[3])


def limited(response, name, quota, window_s):
    body = problem(response, 429, "rate_limited", retry="later")
    told, remaining, reset_s = rates(response)
    assert (told, remaining) == (name, 0)
    assert response.get("ratelimit-policy") == f'"{name}";q={quota};w={window_s}'
    assert 1 <= reset_s <= int(response.get("retry-after")), response.headers
    assert body["retry_after_ms"] <= int(response.get("retry-after")) * 1000
    return body


@pytest.mark.asan
def test_a_user_and_item_have_their_own_count(make_server):
    server = make_server(sets=rule("buys", key="user+item", calls="ticket,buy", rate=3, per_s=HOUR))
    shop = Shop(server)
    lot, other = shop.lot(), shop.lot()
    user = shop.user()
    assert [rates(shop.try_ticket(user, lot.item))[1] for _ in range(2)] == [2, 1]
    bought = shop.buy(user, shop.ticket(user, lot.item))  # the third ticket; the buy is one too many
    limited(bought, "buys", 3, HOUR)
    assert shop.try_ticket(user, other.item).status == 201
    assert shop.try_ticket(shop.user(), lot.item).status == 201
    assert rates(shop.try_ticket(shop.user(), lot.item)) == ("buys", 2, HOUR // 3)


def test_an_order_that_exists_is_read_whatever_the_rule_for_buys_says(make_server):
    server = make_server(sets=rule("buys", key="user+item", calls="ticket,buy", rate=2, per_s=HOUR))
    shop = Shop(server)
    lot, user = shop.lot(), shop.user()
    order = shop.bought(user, shop.ticket(user, lot.item))["order_id"]
    limited(shop.try_ticket(user, lot.item), "buys", 2, HOUR)
    shop.wait_status(user, order, "LOCKED")
    assert shop.cancel(user, order).status == 200


def test_the_address_counts_before_the_token_is_read(make_server):
    server = make_server(sets=rule("hosts", key="address", calls="orders", rate=3, per_s=HOUR))
    for _ in range(3):
        problem(server.get("/v1/me/orders", token="forged"), 401, "unauthenticated")
    limited(server.get("/v1/me/orders", token="forged"), "hosts", 3, HOUR)
    assert server.get("/v1/time").status == 200  # another family of calls
    other = sluicelib.Client(server.address, source="127.0.0.9")
    problem(other.call("GET", "/v1/me/orders", token="forged"), 401)
    other.close()


def test_a_user_is_counted_only_by_a_valid_token(make_server):
    server = make_server(sets=rule("users", key="user", calls="orders", rate=1, per_s=HOUR))
    shop = Shop(server)
    for _ in range(5):
        problem(server.get("/v1/me/orders", token="forged"), 401)
    user = shop.user()
    assert server.get("/v1/me/orders", server.token(user)).status == 200
    limited(server.get("/v1/me/orders", server.token(user)), "users", 1, HOUR)


def test_clients_of_a_trusted_proxy_are_told_apart(make_server):
    server = make_server(sets=["server.trusted_proxies=127.0.0.0/8",
                               *rule("hosts", key="address", calls="time", rate=1, per_s=HOUR)])

    def from_address(address):
        return server.get("/v1/time", headers={"Forwarded": f'for="{address}"'})
    assert from_address("192.0.2.1").status == 200
    limited(from_address("192.0.2.1"), "hosts", 1, HOUR)
    assert from_address("192.0.2.2").status == 200
    assert from_address("[2001:db8::1]").status == 200
    limited(from_address("[2001:db8::2]"), "hosts", 1, HOUR)  # the same /64
    assert from_address("[2001:db8:0:1::1]").status == 200


def test_a_device_is_what_the_client_says(make_server):
    server = make_server(sets=rule("devices", key="device", calls="time", rate=1, per_s=HOUR))

    def of(device):
        return server.get("/v1/time", headers={"Sluice-Device": device} if device else {})
    assert of("phone-1").status == 200
    limited(of("phone-1"), "devices", 1, HOUR)
    assert of("phone-2").status == 200
    assert of("x" * 64).status == 200
    problem(of("x" * 65), 400, "bad_request", field="Sluice-Device")
    for _ in range(3):
        assert of(None).status == 200  # no device: the rule does not apply


def test_call_counts_each_family_and_all_counts_everything(make_server):
    server = make_server(sets=rule("families", key="call", rate=2, per_s=HOUR) +
                         rule("everything", key="all", rate=3, per_s=HOUR))
    assert [server.get("/v1/time").status for _ in range(2)] == [200, 200]
    limited(server.get("/v1/time"), "families", 2, HOUR)  # it takes nothing from `everything`
    assert server.get("/v1/sales").status == 200
    limited(server.get("/v1/sales"), "everything", 3, HOUR)
    for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/"):
        assert server.get(path).status == 200, path  # no family


def test_a_sliding_window_never_lets_more_through(make_server):
    """Fifty in a second, asked by many threads over three seconds: no second of the answers has more."""
    server = make_server(sets=["server.threads=2", *rule("window", key="all", calls="time",
                                                         algorithm="sliding_window", rate=50, per_s=1)])
    passed, lock = [], threading.Lock()
    end = time.monotonic() + 3

    def ask():
        client = sluicelib.Client(server.address)
        while time.monotonic() < end:
            response = client.call("GET", "/v1/time")
            if response.status == 200:
                with lock:
                    passed.append(response.json()["now_ms"])
        client.close()
    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed.sort()
    assert len(passed) > 50, "the load was too small to meet the limit"
    # The server counts before it reads the time that it answers with, so a request may say a little more.
    assert all(passed[i + 50] - passed[i] >= 990 for i in range(len(passed) - 50)), passed


def test_a_leaky_bucket_answers_one_after_the_other(make_server):
    server = make_server(sets=["server.threads=1", *rule("slow", key="all", calls="time", burst=2,
                                                         algorithm="leaky_bucket", rate=1, per_s=2)])
    conns = [server.conn() for _ in range(4)]
    for conn in conns:
        conn.send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\n\r\n")
    answers = [conn.read_response() for conn in conns]
    for conn in conns:
        conn.close()
    passed = sorted(answer.json()["now_ms"] for answer in answers if answer.status == 200)
    assert len(passed) == 3 and sorted(answer.status for answer in answers)[-1] == 429
    assert passed[1] - passed[0] >= 1900 and passed[2] - passed[1] >= 1900, passed


def test_a_held_buy_is_decided_once_and_one_whose_client_left_is_not(make_server):
    server = make_server(sets=rule("slow", key="all", calls="buy", burst=5, algorithm="leaky_bucket",
                                   rate=1, per_s=2))
    shop = Shop(server)
    lot = shop.lot(total=10, limit=0)
    users = [shop.user() for _ in range(3)]
    tickets = [shop.ticket(user, lot.item)["ticket"] for user in users]
    conns = [server.conn() for _ in users]
    for conn, user, ticket in zip(conns, users, tickets):
        conn.send(sluicelib.request_bytes("POST", f"/v1/buy/{ticket}", {
            "Authorization": f"Bearer {server.token(user)}", "Content-Type": "application/json"}, b'{"qty":2}'))
    conns[2].close()  # it waits for its turn
    for conn in conns[:2]:
        assert conn.read_response("POST").status == 202
        conn.close()
    # The order of the client that left is not made, unless its turn came first; asked again it is made once.
    assert shop.buy(users[2], tickets[2], qty=2).status in (200, 202)
    shop.wait_counters(lot.item, 4, 6, 0)


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_forgets_no_limit(make_server, kill):
    server = make_server(sets=rule("day", key="address", calls="time", rate=2, per_s=24 * HOUR))
    assert [server.get("/v1/time").status for _ in range(2)] == [200, 200]
    server.restart(kill=kill)
    limited(server.get("/v1/time"), "day", 2, 24 * HOUR)


def test_a_reload_changes_limits_and_keeps_counts(make_server, tmp_path):
    path = tmp_path / "sluice.conf"

    def write(rate):
        path.write_text(f'limit "kept" {{ key = address\n calls = {{time}}\n rate = 1\n per_s = 3600 }}\n'
                        f'limit "changed" {{ key = address\n calls = {{sales}}\n rate = {rate}\n per_s = 3600 }}\n')
    write(1)
    server = make_server(extra=["--config", str(path)])
    assert server.get("/v1/time").status == 200
    assert server.get("/v1/sales").status == 200
    limited(server.get("/v1/sales"), "changed", 1, HOUR)
    write(5)
    server.signal(1)
    sluicelib.eventually(lambda: "config.reloaded" in server.log(), "the reload")
    assert "limit.changed" in server.log()
    sluicelib.eventually(lambda: server.get("/v1/sales").status == 200, "the new rule")
    limited(server.get("/v1/time"), "kept", 1, HOUR)


def test_what_ships_is_on_outside_the_demonstration(make_server):
    server = make_server(extra=["--set", "admission.defaults=true"])
    shop = Shop(server)
    lot, user = shop.lot(), shop.user()
    for _ in range(10):
        assert shop.try_ticket(user, lot.item).status == 201
    limited(shop.try_ticket(user, lot.item), "user-and-item", 10, 60)
    demo = make_server(demo=True)
    shop = Shop(demo)
    lot, user = shop.lot(), shop.user()
    for _ in range(15):
        assert shop.try_ticket(user, lot.item).get("ratelimit") is None


def test_the_counters_add_up(make_server):
    server = make_server(sets=rule("few", key="address", calls="time", rate=4, per_s=HOUR))
    statuses = [server.get("/v1/time").status for _ in range(7)]

    def count(outcome):
        text = server.get("/metrics").body.decode()
        return int(re.search(rf'sluice_admission_total{{layer="limit",outcome="{outcome}"}} (\d+)', text)[1])
    assert statuses == [200] * 4 + [429] * 3
    sluicelib.eventually(lambda: (count("passed"), count("refused")) == (4, 3), "the counters")


def test_pages_of_other_origins_may_read_the_limit(make_server):
    server = make_server(sets=["cors.origins=https://shop.example",
                               *rule("few", key="address", calls="time", rate=1, per_s=HOUR)])
    answer = server.get("/v1/time", headers={"Origin": "https://shop.example"})
    assert "ratelimit" in answer.get("access-control-expose-headers")
    asked = server.call("OPTIONS", "/v1/time", headers={"Origin": "https://shop.example"})
    assert "sluice-device" in asked.get("access-control-allow-headers")
