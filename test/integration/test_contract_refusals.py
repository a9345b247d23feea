"""What every call has in common: refusals, methods, HEAD, CORS, media types, cache headers."""
import json

import pytest

from sluicelib import Shop, problem, retry_degraded

ORIGIN = "https://shop.example"
SERVER = dict(sets=[f"cors.origins={ORIGIN}"])


@pytest.fixture(scope="module")
def world(server):
    """One sale with one LOCKED order, and names for the parts of every path."""
    shop = Shop(server)
    lot = shop.lot(total=50, limit=0)
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    return dict(user=user, item=lot.item, sale=lot.sale, order=order,
                ticket=shop.ticket(user, lot.item)["ticket"])


ROUTES = [
    ("/v1/time", {"GET"}, None), ("/v1/sales", {"GET"}, None), ("/v1/items/{item}", {"GET"}, None),
    ("/v1/items/{item}/events", {"GET"}, None), ("/v1/items/{item}/ticket", {"POST"}, "buyer"),
    ("/v1/buy/{ticket}", {"POST"}, "buyer"), ("/v1/orders/{order}", {"GET"}, "buyer"),
    ("/v1/orders/{order}/events", {"GET"}, "buyer"),
    ("/v1/orders/{order}/cancel", {"POST"}, "buyer"), ("/v1/me/orders", {"GET"}, "buyer"),
    ("/v1/payments", {"POST"}, None),
    ("/v1/admin/sales", {"GET", "POST"}, "admin"),
    ("/v1/admin/sales/{sale}", {"GET", "PUT", "DELETE"}, "admin"),
    ("/v1/admin/sales/{sale}/warm", {"POST"}, "admin"),
    ("/v1/admin/sales/{sale}/open", {"POST"}, "admin"),
    ("/v1/admin/sales/{sale}/pause", {"POST"}, "admin"),
    ("/v1/admin/sales/{sale}/close", {"POST"}, "admin"),
    ("/v1/admin/items/{item}/restock", {"POST"}, "admin"), ("/v1/admin/orders", {"GET"}, "admin"),
    ("/v1/admin/orders/{order}", {"GET"}, "admin"), ("/v1/admin/events", {"GET"}, "admin"),
    ("/v1/admin/sales/{sale}/report", {"GET"}, "admin"), ("/v1/admin/live", {"GET"}, "admin"),
    ("/v1/admin/reconcile", {"POST"}, "admin"), ("/v1/admin/queue", {"GET"}, "admin"),
    ("/v1/admin/queue/redrive", {"POST"}, "admin"),
    ("/metrics", {"GET"}, None), ("/livez", {"GET"}, None), ("/readyz", {"GET"}, None),
    ("/openapi.json", {"GET"}, None)]


def token_of(server, world, who):
    return {None: None, "buyer": server.token(world["user"]), "admin": server.admin_token}[who]


# ---------------------------------------------------------------- methods and routes

@pytest.mark.parametrize("path,methods,who", ROUTES, ids=lambda v: v if isinstance(v, str) else "")
def test_another_method_is_405_and_names_the_right_ones(server, world, path, methods, who):
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
        if method in methods:
            continue
        response = server.call(method, path.format(**world), token=token_of(server, world, who))
        problem(response, 405, "method_not_allowed")
        allowed = {m.strip() for m in response.get("allow").split(",")}
        assert methods <= allowed <= methods | {"HEAD", "OPTIONS"}, response


@pytest.mark.parametrize("path", [
    "/v1", "/v1/", "/v1/nothing", "/v2/time", "/v1/time/", "/v1/time/x", "/v1//time", "//v1/time",
    "/V1/time", "/v1/Time", "/v1/items", "/v1/items/", "/v1/items/1/nothing", "/v1/orders",
    "/v1/orders/", "/v1/buy", "/v1/buy/", "/v1/me", "/v1/payments/x", "/nothing", "/v1/time%2f",
    "/v1/%2e%2e/v1/time", "/v1/../v1/time", "/.", "/..", "/*", "/v1/timex", "/v1/tim"])
def test_unknown_paths_are_not_found(server, path):
    problem(server.get(path), (404, 401, 400), ("not_found", "no_such_item", "unauthenticated",
                                               "bad_request"))
    problem(server.get(path, server.admin_token), (404, 401, 400))


@pytest.mark.parametrize("path", ["/v1/admin", "/v1/admin/", "/v1/admin/nothing",
                                  "/v1/admin/sales/1/nothing", "/v1/admin/items/1"])
def test_unknown_operator_paths_are_not_found(server, path):
    problem(server.get(path, server.admin_token), (404, 405), ("not_found", "method_not_allowed"))


@pytest.mark.parametrize("method,path", [
    ("POST", "/v1/items/{item}/challenge"),
    ("GET", "/v1/admin/switches/x"), ("PUT", "/v1/admin/switches/x")])
def test_what_is_not_built_yet_is_not_found(server, world, method, path):
    who = "admin" if "/admin/" in path else "buyer"
    response = server.call(method, path.format(**world), token=token_of(server, world, who))
    problem(response, 404, "not_found")


# ---------------------------------------------------------------- the shape of a refusal

def test_every_kind_of_refusal_has_the_whole_shape(server, world):
    """problem() checks type, title, status, code, detail, retry and Retry-After each time."""
    buyer = server.token(world["user"])
    problem(server.get("/v1/items/999999999"), 404, "no_such_item")
    problem(server.get("/v1/orders/x", buyer), 404, "not_found")
    problem(server.get("/v1/orders/x"), 401, "unauthenticated")
    problem(server.call("POST", "/v1/buy/x", token=buyer), 403, "bad_ticket")
    problem(server.call("POST", f"/v1/buy/{world['ticket']}", {"qty": 0}, buyer), 400,
            "bad_request", field="qty")
    problem(server.call("POST", "/v1/time"), 405, "method_not_allowed")
    problem(server.call("POST", "/v1/payments", {}), 401, "bad_signature")


def test_refusals_keep_the_connection(server, world):
    with server.conn() as conn:
        for path, code in [("/v1/items/999999999", "no_such_item")] + 10 * [("/v1/no", "not_found")]:
            conn.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
            response = conn.read_response()
            problem(response, 404, code)
            assert not response.closes


def test_quotes_and_controls_in_a_path_do_not_break_the_json(server):
    for path in ('/v1/items/"x"', "/v1/items/%22%0a%5c", "/v1/<script>", "/v1/items/\\"):
        response = server.get(path)
        problem(response, (404, 400))
        json.loads(response.body)


# ---------------------------------------------------------------- HEAD

@pytest.mark.asan
def test_head_is_get_without_the_body(server, world):
    paths = ["/v1/sales", f"/v1/items/{world['item']}", "/livez", "/readyz", "/openapi.json", "/",
             "/v1/items/999999999"]
    with server.conn() as conn:
        for path in paths:
            conn.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
            get = conn.read_response()
            conn.send(f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n")
            head = conn.read_response("HEAD")
            assert head.status == get.status, path
            assert head.get("content-type") == get.get("content-type"), path
            assert head.get("content-length") == str(len(get.body)), path
        # The next answer is where it should be: HEAD left no body behind.
        conn.send("HEAD /v1/time HTTP/1.1\r\nHost: x\r\n\r\n"
                  "GET /v1/time HTTP/1.1\r\nHost: x\r\n\r\n")
        assert conn.read_response("HEAD").status == 200
        assert conn.read_response().json()["now_ms"] > 0


def test_head_with_a_token(server, world):
    token = server.token(world["user"])
    response = server.call("HEAD", f"/v1/orders/{world['order']}", token=token)
    assert response.status == 200 and response.get("cache-control") == "no-store"
    assert server.call("HEAD", f"/v1/orders/{world['order']}").status == 401


def test_head_where_there_is_no_get(server, world):
    response = server.call("HEAD", f"/v1/buy/{world['ticket']}", token=server.token(world["user"]))
    assert response.status == 405
    assert "POST" in response.get("allow")
    Shop(server).item(world["item"], locked=1)


# ---------------------------------------------------------------- CORS

def preflight(server, path, origin=ORIGIN, method="POST", more=None):
    fields = {"Origin": origin, "Access-Control-Request-Method": method,
              "Access-Control-Request-Headers": "authorization,content-type"}
    fields.update(more or {})
    return server.call("OPTIONS", path, headers=fields)


@pytest.mark.parametrize("path,methods,who", ROUTES, ids=lambda v: v if isinstance(v, str) else "")
def test_preflight_from_a_configured_origin(server, world, path, methods, who):
    for method in methods:
        response = preflight(server, path.format(**world), method=method)
        assert response.status == 204, response
        assert response.get("access-control-allow-origin") == ORIGIN
        assert response.get("access-control-max-age") == "7200"
        allowed = {m.strip() for m in response.get("access-control-allow-methods").split(",")}
        assert method in allowed, response
        headers = {h.strip().lower()
                   for h in response.get("access-control-allow-headers").split(",")}
        assert {"authorization", "content-type"} <= headers, response
        assert "origin" in (response.get("vary") or "").lower()


def test_preflight_comes_before_everything_else(server):
    """No token, no such thing, no matter: the browser asks before the page may."""
    assert preflight(server, "/v1/orders/none", more={"Authorization": "Bearer x"}).status == 204
    assert preflight(server, "/v1/items/999999999/ticket").status == 204


@pytest.mark.parametrize("origin", [
    "https://evil.example", "http://shop.example", "https://shop.example.evil.example",
    "https://shop.example:444", "https://xshop.example", "null", "https://shop.exampl",
    "HTTPS://evil", "*", ""])
def test_other_origins_get_no_permission(server, world, origin):
    response = preflight(server, "/v1/sales", origin)
    assert response.get("access-control-allow-origin") is None, response
    response = server.get("/v1/sales", headers={"Origin": origin})
    assert response.status == 200
    assert response.get("access-control-allow-origin") is None, response


@pytest.mark.asan
def test_answers_and_refusals_can_be_read_by_the_page(server, world):
    fields = {"Origin": ORIGIN}
    buyer = server.token(world["user"])
    answers = [
        server.get("/v1/sales", headers=fields), server.get("/v1/time", headers=fields),
        server.get(f"/v1/items/{world['item']}", headers=fields),
        server.get("/v1/items/999999999", headers=fields),
        server.get("/v1/me/orders", headers=fields),
        server.get(f"/v1/orders/{world['order']}", buyer, headers=fields),
        server.call("POST", f"/v1/items/{world['item']}/ticket", token=buyer, headers=fields),
        server.call("POST", "/v1/buy/rubbish", token=buyer, headers=fields)]
    assert [a.status for a in answers] == [200, 200, 200, 404, 401, 200, 201, 403]
    for answer in answers:
        assert answer.get("access-control-allow-origin") == ORIGIN, answer
        assert "origin" in (answer.get("vary") or "").lower(), answer
    with server.events(f"/v1/items/{world['item']}/events", headers=fields) as events:
        assert events.response.get("access-control-allow-origin") == ORIGIN


def test_buys_and_sell_outs_can_be_read_by_the_page(server):
    shop = Shop(server)
    lot = shop.lot(total=1, limit=0)
    user = shop.user()
    tickets = [shop.ticket(user, lot.item) for _ in range(2)]
    answers = [retry_degraded(lambda t=t: server.call("POST", t["buy_url"],
                                                      token=server.token(user),
                                                      headers={"Origin": ORIGIN}))
               for t in tickets]
    assert [a.status for a in answers] == [202, 409]
    for answer in answers:
        assert answer.get("access-control-allow-origin") == ORIGIN, answer
    exposed = {h.strip().lower() for a in answers
               for h in (a.get("access-control-expose-headers") or "").split(",")}
    assert {"location", "retry-after"} <= exposed


def test_several_origins(make_server):
    server = make_server(sets=["cors.origins=https://a.example https://b.example"])
    for origin in ("https://a.example", "https://b.example"):
        assert preflight(server, "/v1/sales", origin).get("access-control-allow-origin") == origin
    assert preflight(server, "/v1/sales", ORIGIN).get("access-control-allow-origin") is None


def test_without_configuration_no_origin_is_allowed(make_server):
    server = make_server()
    assert preflight(server, "/v1/sales").get("access-control-allow-origin") is None
    assert server.get("/v1/sales", headers={"Origin": ORIGIN}).get(
        "access-control-allow-origin") is None


# ---------------------------------------------------------------- caches and media types

def test_what_needed_a_token_is_never_stored(server, world):
    buyer, admin = server.token(world["user"]), server.admin_token
    for path, token in ((f"/v1/orders/{world['order']}", buyer), ("/v1/me/orders", buyer),
                        ("/v1/admin/sales", admin), (f"/v1/admin/sales/{world['sale']}", admin),
                        ("/v1/admin/orders", admin), ("/v1/admin/events", admin),
                        (f"/v1/admin/orders/{world['order']}", admin),
                        (f"/v1/admin/sales/{world['sale']}/report", admin),
                        ("/v1/orders/none", buyer), ("/v1/admin/sales/999999999", admin)):
        for given in (token, None):
            assert server.get(path, given).get("cache-control") == "no-store", path


def test_answers_are_json(server, world):
    for path, token in (("/v1/time", None), ("/v1/sales", None),
                        (f"/v1/items/{world['item']}", None),
                        (f"/v1/orders/{world['order']}", server.token(world["user"])),
                        ("/v1/admin/sales", server.admin_token)):
        response = server.get(path, token)
        assert response.get("content-type").split(";")[0] == "application/json"
        assert isinstance(response.json(), dict)


def test_too_large_a_body(server, world):
    with server.conn() as conn:
        conn.send(f"POST /v1/buy/{world['ticket']} HTTP/1.1\r\nHost: x\r\n"
                  f"Authorization: Bearer {server.token(world['user'])}\r\n"
                  "Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n")
        problem(conn.read_response(), 413, "too_large")
        assert conn.closed()
