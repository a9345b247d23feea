"""The server about itself: OpenAPI, metrics, health, the page, and the demonstration."""
import html.parser
import re
import urllib.parse

import pytest

from sluicelib import Server, Shop, eventually, problem

SERVER = dict(demo=True, sets=["reconcile.bound_s=1"])

# The calls of the contract that exist; parameter names are the document's own business.
CALLS = """
GET /v1/time
GET /v1/sales
GET /v1/items/{}
GET /v1/items/{}/events
POST /v1/items/{}/ticket
POST /v1/buy/{}
GET /v1/orders/{}
GET /v1/orders/{}/events
POST /v1/orders/{}/cancel
GET /v1/me/orders
POST /v1/payments
POST /v1/orders/{}/pay
GET /v1/admin/sales
POST /v1/admin/sales
GET /v1/admin/sales/{}
PUT /v1/admin/sales/{}
DELETE /v1/admin/sales/{}
POST /v1/admin/sales/{}/warm
POST /v1/admin/sales/{}/open
POST /v1/admin/sales/{}/pause
POST /v1/admin/sales/{}/close
POST /v1/admin/items/{}/restock
GET /v1/admin/orders
GET /v1/admin/orders/{}
GET /v1/admin/events
GET /v1/admin/sales/{}/report
POST /v1/admin/reconcile
GET /v1/admin/queue
POST /v1/admin/queue/redrive
GET /v1/admin/live
GET /metrics
GET /livez
GET /readyz
""".split("\n")[1:-1]

ABSENT = ("challenge", "switches")


@pytest.fixture(scope="module")
def document(server):
    response = server.get("/openapi.json")
    assert response.status == 200, response
    assert response.get("content-type").split(";")[0] == "application/json"
    return response.json()


def operations(document):
    for path, operations_of in document["paths"].items():
        for method in operations_of:
            if method in ("get", "put", "post", "delete", "patch", "head", "options"):
                yield method.upper(), path


def expanded(document):
    """(method, path with {} for each parameter); a {move} with listed values becomes each value."""
    found = set()
    for method, path in operations(document):
        variants = [path]
        entry = document["paths"][path]
        for parameter in entry.get("parameters", []) + entry[method.lower()].get("parameters", []):
            if "$ref" in parameter:
                parameter = document["components"]["parameters"][parameter["$ref"].split("/")[-1]]
            values = parameter.get("schema", {}).get("enum")
            if parameter["in"] == "path" and values:
                variants = [v.replace("{%s}" % parameter["name"], value)
                            for v in variants for value in values]
        found |= {(method, re.sub(r"\{[^}]*\}", "{}", v)) for v in variants}
    return found


def test_openapi_is_3_1(document):
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert document["info"]["title"] and document["info"]["version"]


def test_every_call_of_the_contract_is_in_openapi(document):
    described = expanded(document)
    missing = [c for c in CALLS if tuple(c.split(" ")) not in described]
    assert not missing


def test_openapi_describes_nothing_that_is_not_built(document):
    for path in document["paths"]:
        assert not any(word in path for word in ABSENT), path


def test_every_operation_of_openapi_is_complete(document):
    names = set()
    for method, path in operations(document):
        operation = document["paths"][path][method.lower()]
        assert operation.get("responses"), (method, path)
        assert operation.get("summary") or operation.get("description"), (method, path)
        declared = {p["name"] if "$ref" not in p else
                    document["components"]["parameters"][p["$ref"].split("/")[-1]]["name"]
                    for p in operation.get("parameters", []) +
                    document["paths"][path].get("parameters", [])}
        assert set(re.findall(r"\{([^}]*)\}", path)) <= declared, (method, path)
        if "operationId" in operation:
            assert operation["operationId"] not in names
            names.add(operation["operationId"])


def refusal_codes(document, method, path, status):
    response = document["paths"][path][method]["responses"].get(status, {})
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].split("/")[-1]]
    schema = response.get("content", {}).get("application/problem+json", {}).get("schema", {})
    return {code for part in schema.get("allOf", [])
            for code in part.get("properties", {}).get("code", {}).get("enum", [])}


@pytest.mark.parametrize("method,path,status,code", [
    ("get", "/v1/items/{item}", "404", "no_such_item"),
    ("get", "/v1/items/{item}", "503", "degraded"),
    ("post", "/v1/buy/{ticket}", "404", "no_such_item"),
    ("post", "/v1/payments", "422", "different_request"),
    ("post", "/v1/admin/reconcile", "404", "not_found")])
def test_openapi_names_refusals_that_are_seldom_met(document, method, path, status, code):
    assert code in refusal_codes(document, method, path, status)


def test_every_reference_of_openapi_leads_somewhere(document):
    def walk(node):
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str):
                assert reference.startswith("#/"), reference
                target = document
                for part in reference[2:].split("/"):
                    target = target[part.replace("~1", "/").replace("~0", "~")]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)
    walk(document)


@pytest.mark.asan
def test_every_path_of_openapi_is_served(server, document):
    """Real ids everywhere, so that a 404 can only mean: no such route."""
    shop = Shop(server)
    for method, path in sorted(expanded(document)):
        if path.startswith("/v1/admin/queue"):
            continue  # 404 where the engine has none: test_console.py
        if path.startswith("/v1/admin/blocks/"):
            continue  # 404 where there is no such block: test_contract_blocks.py
        lot = shop.lot(total=20, limit=0, state="draft" if method == "DELETE" else "open")
        user = shop.user()
        value = lot.item
        token = server.token(user)
        if path.startswith("/v1/admin/sales/"):
            value = lot.sale
        elif "/orders/{}" in path:
            value = shop.order_locked(user, lot.item)["order_id"]
        elif path.startswith("/assets/"):
            value = assets(server)[0].rsplit("/", 1)[1]
        elif path.startswith("/v1/buy/"):
            value = shop.ticket(user, lot.item)["ticket"]
        if path.startswith("/v1/admin"):
            token = server.admin_token
        target = path.replace("{}", str(value))
        if path == "/items/{}":
            eventually(lambda at=target: server.get(at).status == 200, "the item's page to be made")
        with server.conn() as conn:
            conn.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
                      f"Content-Length: 0\r\n\r\n")
            response = conn.read_head()
        assert response.status not in (404, 405, 501) and response.status < 500, (method, target)


# ---------------------------------------------------------------- health and metrics

def test_livez_and_readyz(server):
    assert server.get("/livez").status == 200
    assert server.get("/readyz").status == 200


METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*"
                    r'(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*",?)*\})?'
                    r" (-?\d+(\.\d+)?([eE][+-]?\d+)?|\+Inf|-Inf|NaN)( -?\d+)?")


def metrics(server):
    response = server.get("/metrics")
    assert response.status == 200
    assert response.get("content-type").startswith("text/plain")
    return response.body.decode()


@pytest.mark.asan
def test_metrics_are_prometheus_text(server):
    text = metrics(server)
    assert text.endswith("\n")
    typed, seen = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name not in typed, f"{name} typed twice"
            assert kind in ("counter", "gauge", "histogram", "summary", "untyped")
            typed[name] = kind
        elif line and not line.startswith("#"):
            assert METRIC.fullmatch(line), line
            series = line.rsplit(" ", 1)[0]
            assert series not in seen, f"{series} told twice"
            seen.add(series)
            name = re.match(r"[a-zA-Z0-9_:]+", line)[0]
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in typed or base in typed, f"{name} has no TYPE"
    assert any(name.startswith("sluice_") for name in typed)


def test_metrics_move_with_what_happens(server):
    shop = Shop(server)
    lot = shop.lot(total=1, limit=0)
    user = shop.user()
    spare = shop.ticket(user, lot.item)
    before = metrics(server)
    shop.order_locked(user, lot.item)
    problem(shop.buy(user, spare), 409, "sold_out")

    def have_moved():  # the text is made a few times a second
        news = set(metrics(server).splitlines()) - set(before.splitlines())
        changed = {line.rsplit(" ", 1)[0] for line in news}
        return all(any(word in series for series in changed) for word in ("sold_out", "order"))
    eventually(have_moved, "series of orders and refusals that move")


# ---------------------------------------------------------------- the page

class Links(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if value and name in ("src", "href") and tag in ("script", "link", "img"):
                self.found.append(value)


def assets(server, page="/"):
    page = server.get(page).body.decode("utf-8")
    paths = [urllib.parse.urljoin("/", link) for link in Links(page).found
             if not link.startswith(("data:", "http:", "https:", "//", "#"))]
    return [p for p in paths if not p.startswith("/v1/")]


@pytest.mark.parametrize("page", ["/", "/console"])
def test_the_pages_are_html_and_can_be_asked_again(server, page):
    response = server.get(page)
    assert response.status == 200
    assert response.get("content-type").lower().replace(" ", "") == "text/html;charset=utf-8"
    assert "immutable" not in (response.get("cache-control") or "")
    assert response.body.lstrip().lower().startswith(b"<!doctype html>")
    etag = response.get("etag")
    assert re.fullmatch(r'(W/)?"[^"]*"', etag)
    for given in (etag, f'"other", {etag}', "*", f"W/{etag}" if etag[0] != "W" else etag):
        again = server.get(page, headers={"If-None-Match": given})
        assert again.status == 304, (given, again)
        assert again.get("etag") == etag
    assert server.get(page, headers={"If-None-Match": '"other"'}).status == 200


@pytest.mark.asan
@pytest.mark.parametrize("page", ["/", "/console"])
def test_assets_have_hashed_names_and_live_for_ever(server, page):
    found = assets(server, page)
    assert found, "the page should bring its script or style as a file"
    for path in found:
        response = server.get(path)
        assert response.status == 200, path
        assert "immutable" in response.get("cache-control") and \
            "max-age=" in response.get("cache-control"), path
        assert re.search(r"[0-9a-f]{8,}|[A-Za-z0-9_-]{10,}\.", path), f"no hash in {path}"
        kind = response.get("content-type").split(";")[0]
        ending = path.rsplit(".", 1)[-1]
        assert kind in {"js": ("text/javascript", "application/javascript"), "css": ("text/css",),
                        "svg": ("image/svg+xml",), "png": ("image/png",),
                        "ico": ("image/x-icon", "image/vnd.microsoft.icon")}.get(ending, (kind,))
        etag = response.get("etag")
        again = server.get(path, headers={"If-None-Match": etag})
        assert again.status == 304 and again.get("etag") == etag
        wrong = re.sub(r"[0-9a-f]{8}", "deadbeef", path, 1)
        if wrong != path:
            problem(server.get(wrong), 404, "not_found")


@pytest.mark.parametrize("path", [
    "/../../../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
    "/assets/../../admin.token", "/jwt.key", "/admin.token", "/./jwt.key", "/%00",
    "/index.html%00"])
def test_nothing_else_is_served(server, path):
    response = server.get(path)
    problem(response, (404, 400))
    assert server.admin_token.encode() not in response.body


def test_the_page_is_served_without_the_demonstration_too(make_server):
    server = make_server()
    response = server.get("/")
    assert response.status == 200 and response.get("content-type").startswith("text/html")


# ---------------------------------------------------------------- the demonstration

@pytest.fixture(scope="module")
def fresh_demo():
    made = Server(demo=True)
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.discard()


def test_the_demonstration_brings_two_sales(fresh_demo):
    server = fresh_demo
    sales = server.get("/v1/sales").json()["sales"]
    assert len(sales) == 2
    now_ms = server.now_ms()
    opened = [s for s in sales if s["state"] == "open"]
    assert opened, sales
    other = [s for s in sales if s is not opened[0]][0]
    assert other["starts_at_ms"] <= now_ms + 61_000
    assert {i["limit_per_user"] for s in sales for i in s["items"]} == {0, 1, 5}


def test_the_demonstration_sells(fresh_demo):
    shop = Shop(fresh_demo)
    sale = next(s for s in fresh_demo.get("/v1/sales").json()["sales"] if s["state"] == "open")
    user = shop.user()
    order = shop.order_locked(user, sale["items"][0]["id"])
    shop.paid(order["order_id"], order["amount_cents"])


def test_the_demonstration_does_not_come_again(make_server):
    server = make_server(demo=True)
    before = [(s["id"], s["name"]) for s in server.get("/v1/sales").json()["sales"]]
    server.restart()
    after = [(s["id"], s["name"]) for s in server.get("/v1/sales").json()["sales"]]
    assert sorted(after) == sorted(before)


def test_without_demo_there_are_no_sales(make_server):
    server = make_server()
    assert server.get("/v1/sales").json() == {"sales": []}


def test_the_pay_button_of_the_demonstration(server):
    shop = Shop(server)
    lot = shop.lot(total=3, price=100)
    user, other = shop.user(), shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    path = f"/v1/orders/{order}/pay"
    problem(server.call("POST", path), 401, "unauthenticated")
    problem(server.call("POST", path, token=server.token(other)), 404, "not_found")
    response = server.call("POST", path, token=server.token(user))
    assert response.status == 200 and response.json()["status"] == "PAID", response
    shop.wait_counters(lot.item, 2, 0, 1)
    again = server.call("POST", path, token=server.token(user))
    if again.status != 200:
        problem(again, 409, "already_paid")
    assert shop.order(user, order)["status"] == "PAID"
    shop.wait_counters(lot.item, 2, 0, 1)


def test_the_pay_button_does_not_revive(server):
    shop = Shop(server)
    lot = shop.lot(total=3)
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    shop.cancelled(user, order)
    problem(server.call("POST", f"/v1/orders/{order}/pay", token=server.token(user)), 409,
            "expired")
