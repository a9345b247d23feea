"""The storefront's pages: made with the sales, packed, cached, purged at a CDN, copied for nginx."""
import gzip
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from html.parser import HTMLParser

import pytest

from sluicelib import (BINARY, DISTRIBUTED, GUARD_S, Conn, Shop, eventually, item_json,
                       private_port, problem, request_bytes, run)

SERVER = dict(demo=False)
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def page(server, path, **headers):
    """The page at this path, or None where there is none."""
    response = server.get(path, headers=dict(HTML, **headers))
    assert response.status in (200, 404, 503), response  # 503: it is being made
    assert response.get("content-type") == "text/html; charset=utf-8", response
    return response if response.status == 200 else None


def body(response):
    packed = response.get("content-encoding") == "gzip"
    return (gzip.decompress(response.body) if packed else response.body).decode()


class Data(HTMLParser):
    """The JSON for a page's script, and every tag with its attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.inside = [], "", False
        self.feed(text)
        self.json = json.loads(self.text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = dict(attributes).get("id") == "data"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        self.text += data if self.inside else ""


def wait_page(server, path, wanted, what):
    """The page, once `wanted` of its text is true."""
    def look():
        found = page(server, path)
        return found if found is not None and wanted(body(found)) else None
    return eventually(look, what)


def listed(server, sale):
    sales = Data(body(page(server, "/"))).json["sales"]
    return next((s for s in sales if s["id"] == sale), None)


# ---------------------------------------------------------------- when pages are made

@pytest.mark.asan
def test_pages_appear_when_a_sale_is_warmed(server, shop):
    lot = shop.lot(state="draft", item=dict(name="Kettle", was_cents=5999, sku="K-1"))
    assert page(server, f"/items/{lot.item}") is None
    assert listed(server, lot.sale) is None
    sale = shop.moved(lot.sale, "warm")
    text = body(wait_page(server, f"/items/{lot.item}", bool, "the item's page"))
    assert "Kettle" in text and "CNY 19.99" in text and "CNY 59.99" in text
    told = {name: sale[name] for name in ("id", "name", "currency", "starts_at_ms", "ends_at_ms")}
    item = dict(id=lot.item, name="Kettle", sku="K-1", image_url=None, price_cents=1999,
                was_cents=5999, limit_per_user=1)
    assert Data(text).json == dict(item=item, sale=told)
    assert eventually(lambda: listed(server, lot.sale), "the list") == dict(told, items=[item])


def test_nobody_is_told_that_a_warm_item_is_not_there(server, shop):
    """While its page is being made: 503 for people as for programs, and when to ask again."""
    seen = set()
    for _ in range(20):
        lot = shop.lot(state="draft")
        shop.moved(lot.sale, "warm")
        with Conn(server.address) as conn:
            for _ in range(5):
                conn.send(request_bytes("GET", f"/items/{lot.item}", headers=list(HTML.items())))
                response = conn.read_response()
                assert response.status in (200, 503), response
                assert response.get("content-type").startswith("text/html")
                if response.status == 503:
                    assert response.get("retry-after") == "1"
                seen.add(response.status)
    assert 200 in seen


@pytest.mark.embedded
def test_an_item_without_room_for_its_page(make_server):
    server = make_server(sets=["pages.memory_mib=1"])
    shop = Shop(server)
    items = [item_json(name=f"Thing {i} " + "x" * 150) for i in range(300)]
    sale = shop.create_sale(items)
    shop.moved(sale["id"], "warm")
    eventually(lambda: "pages.too_many" in server.log(), "there are too many pages")
    assert "raise pages.memory_mib" in server.log()
    last = sale["items"][-1]["id"]
    response = server.get(f"/items/{last}", headers=HTML)
    assert response.status == 404 and response.get("retry-after") is None
    assert "no page here" in problem(server.get(f"/items/{last}"), 404, "not_found")["detail"]
    assert server.get(f"/v1/items/{last}").status == 200


def test_a_draft_that_changes_is_seen_by_nobody(server, shop):
    lot = shop.lot(state="draft", item=dict(name="secret thing"))
    changed = server.admin("PUT", f"/sales/{lot.sale}",
                           dict(items=[item_json(id=lot.item, name="new secret")]))
    assert changed.status == 200, changed
    fresh = shop.lot(state="warm")  # whatever is made for the draft is made by now
    wait_page(server, f"/items/{fresh.item}", bool, "another item's page")
    assert page(server, f"/items/{lot.item}") is None
    assert "secret" not in body(page(server, "/"))
    shop.moved(lot.sale, "warm")
    wait_page(server, f"/items/{lot.item}", lambda text: "new secret" in text, "its own page")


def test_a_page_changes_with_its_sale(server, shop):
    lot = shop.lot(state="warm")
    first = wait_page(server, f"/items/{lot.item}", bool, "the page")
    end = shop.sale(lot.sale)["ends_at_ms"] + 60_000
    assert server.admin("PUT", f"/sales/{lot.sale}", dict(name="Nóon & <more>")).status == 200
    wait_page(server, f"/items/{lot.item}", lambda t: Data(t).json["sale"]["name"] ==
              "Nóon & <more>", "the new name")
    assert server.admin("PUT", f"/sales/{lot.sale}", dict(ends_at_ms=end)).status == 200
    last = wait_page(server, f"/items/{lot.item}", lambda t: Data(t).json["sale"]["ends_at_ms"] ==
                     end, "the new end")
    assert last.get("etag") != first.get("etag")
    assert eventually(lambda: listed(server, lot.sale)["ends_at_ms"] == end, "the list")


def test_what_pages_do_not_show_changes_no_page(server, shop):
    lot = shop.lot(state="warm", total=3)
    first = wait_page(server, f"/items/{lot.item}", bool, "the page")
    shop.moved(lot.sale, "open")
    shop.order_locked(shop.user(), lot.item)
    assert shop.restock(lot.item, 5).status == 200
    shop.moved(lot.sale, "pause")
    later = shop.lot(state="warm")
    wait_page(server, f"/items/{later.item}", bool, "what was made after all that")
    assert page(server, f"/items/{lot.item}").get("etag") == first.get("etag")


@pytest.mark.embedded
def test_pages_are_there_again_after_a_restart(make_server):
    server = make_server()
    lot = Shop(server).lot(state="warm")
    before = wait_page(server, f"/items/{lot.item}", bool, "the page")
    server.restart(kill=True)
    after = page(server, f"/items/{lot.item}")  # before anybody is served, so at once
    assert (after.body, after.get("etag")) == (before.body, before.get("etag"))


# ---------------------------------------------------------------- how they are answered

def test_forms_and_caching(server, shop):
    lot = shop.lot(state="warm")
    wait_page(server, f"/items/{lot.item}", bool, "the page")
    for path in ("/", f"/items/{lot.item}", "/orders"):
        plain = page(server, path)
        packed = page(server, path, **{"Accept-Encoding": "br, gzip;q=0.5"})
        refused = page(server, path, **{"Accept-Encoding": "gzip;q=0"})
        assert packed.get("content-encoding") == "gzip" and plain.get("content-encoding") is None
        assert gzip.decompress(packed.body) == plain.body == refused.body
        assert len(packed.body) < len(plain.body)
        assert plain.get("etag") != packed.get("etag")
        for response in (plain, packed):
            assert response.get("vary") == "Accept-Encoding"
            assert response.get("cache-control") == "public, max-age=5, s-maxage=60"
            assert "script-src" not in response.get("content-security-policy")
            assert "default-src 'self'" in response.get("content-security-policy")
        for wanted, encoding in ((plain, "identity"), (packed, "gzip")):
            ask = {"Accept-Encoding": encoding, "If-None-Match": wanted.get("etag")}
            same = server.get(path, headers=ask)
            assert (same.status, same.body, same.get("etag")) == (304, b"", wanted.get("etag"))
        other = {"Accept-Encoding": "gzip", "If-None-Match": plain.get("etag")}
        assert server.get(path, headers=other).status == 200
        head = server.call("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        assert head.get("content-length") == str(len(plain.body))


def test_repeated_accept_lines_are_no_mistake(server):
    lines = [("Accept-Encoding", "br"), ("Accept-Encoding", "gzip"), ("Accept", "text/html"),
             ("Accept", "*/*")]
    with Conn(server.address) as conn:
        conn.send(request_bytes("GET", "/orders", headers=lines))
        response = conn.read_response()
    assert response.status == 200 and response.get("content-encoding") is None


def test_other_methods_are_refused(server):
    for path in ("/", "/items/1", "/orders", "/pages.json"):
        refused = server.call("POST", path, {})
        problem(refused, 405, "method_not_allowed")
        assert {"GET", "HEAD"} <= set(refused.get("allow").split(", "))


@pytest.mark.parametrize("item", ["1234567890", "0", "x", "9007199254740993", "%31"])
def test_an_item_that_is_not_there(server, item):
    response = server.get(f"/items/{item}", headers=HTML)
    assert response.status == 404 and response.get("content-type").startswith("text/html")
    assert response.body.lower().lstrip().startswith(b"<!doctype html>")
    assert "s-maxage" not in response.get("cache-control")
    problem(server.get(f"/items/{item}"), 404, "no_such_item")


def test_the_demonstrations_pages_are_only_the_demonstrations(server):
    for path in ("/demo/login", "/demo/pay"):
        problem(server.get(path), 404, "not_found")
        assert path not in [entry["path"] for entry in server.get("/pages.json").json()["pages"]]


def test_the_demonstration_leads_to_its_own_pages(make_server):
    server = make_server(demo=True)
    shop = Shop(server)
    assert server.get("/v1/page-config").json() == dict(demo=True, login_url="/demo/login")
    login, pay = page(server, "/demo/login"), page(server, "/demo/pay?order=x")
    assert "<!doctype html>" in body(login).lower() and "<!doctype html>" in body(pay).lower()
    assert page(server, "/demo/login?next=%2Fitems%2F1").body == login.body
    assert server.get("/demo/login?user=7").json()["user_id"] == 7
    problem(server.get("/demo/login?user=x"), 400, "bad_request", field="user")
    sale = next(s for s in server.get("/v1/sales").json()["sales"] if s["state"] == "open")
    order = shop.order_locked(shop.user(), sale["items"][0]["id"])
    assert order["pay_url"] == f"/demo/pay?order={order['order_id']}"
    configured = make_server(demo=True, sets=["page.login_url=https://shop.example/in"])
    assert configured.get("/v1/page-config").json()["login_url"] == "https://shop.example/in"


HOSTILE = ["</script><script>alert(1)</script>", "\"><img src=x onerror=alert(1)>",
           "' onfocus='alert(1)", "<!-- <script>", "{{data}} {{#items}}", "&lt;b&gt; \\u003c",
           "line\u2028sep\u2029end", "𝕏 🔥 \u202e rtl"]


def test_hostile_names_stay_text(server, shop):
    items = [item_json(name=name, sku=name[:20], image_url="/" + name) for name in HOSTILE]
    made = shop.create_sale(items, name=HOSTILE[0])
    harmless = shop.create_sale([item_json(sku="a", image_url="/a")])
    for sale in (made, harmless):
        shop.moved(sale["id"], "warm")
    path = f"/items/{harmless['items'][0]['id']}"
    tags = [tag for tag, _ in Data(body(wait_page(server, path, bool, "a page"))).tags]
    for name, item in zip(HOSTILE, made["items"]):
        text = body(wait_page(server, f"/items/{item['id']}", bool, "its page"))
        data = Data(text)
        assert [tag for tag, _ in data.tags] == tags, text
        assert not any(key.startswith("on") for _, keys in data.tags for key in keys)
        assert data.json["item"]["name"] == name and data.json["sale"]["name"] == HOSTILE[0]
        assert "\u2028" not in data.text and "<" not in data.text
    names = [i["name"] for i in eventually(lambda: listed(server, made["id"]), "the list")["items"]]
    assert names == HOSTILE


def test_pictures_of_plain_http_are_not_shown(server, shop):
    urls = ["https://img.example/a.png", "/a.png", "http://img.example/a.png"]
    made = shop.create_sale([item_json(image_url=url) for url in urls])
    shop.moved(made["id"], "warm")
    for url, item in zip(urls, made["items"]):
        text = body(wait_page(server, f"/items/{item['id']}", bool, "its page"))
        assert Data(text).json["item"]["image_url"] == (None if url.startswith("http:") else url)


# ---------------------------------------------------------------- the purge hook

class Hook:
    """A CDN's purge hook: answers with `status`, remembers what it was told."""

    def __init__(self):
        self.calls, self.status, self.server, self.thread = [], 200, None, None
        self.port = private_port()

    def start(self):
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.calls.append((self.path, self.headers["Authorization"], hook.status,
                                   told["urls"]))
                self.send_response(hook.status)
                self.end_headers()

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def stop(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def told(self, since=0):
        return [url for call in self.calls[since:] if call[2] == 200 for url in call[3]]


@pytest.fixture
def hook():
    made = Hook()
    yield made
    made.stop()


def purging(hook, tmp_path, *more):
    (tmp_path / "token").write_text("a-secret\n")
    return dict(sets=[f"pages.purge_url=http://127.0.0.1:{hook.port}/purge?zone=1",
                      "pages.base_url=https://shop.example",
                      f"pages.purge_token_file={tmp_path}/token", *more])


def test_the_hook_is_told_what_changed(make_server, hook, tmp_path):
    hook.start()
    server = make_server(**purging(hook, tmp_path))
    shop = Shop(server)
    eventually(lambda: "https://shop.example/orders" in hook.told(), "all pages at the first start")
    assert hook.calls[0][:2] == ("/purge?zone=1", "Bearer a-secret")
    assert page(server, "/orders").get("cache-control") == "public, max-age=5, s-maxage=86400"
    lot, other = shop.lot(state="warm"), shop.lot(state="warm")
    mine = f"https://shop.example/items/{lot.item}"
    eventually(lambda: {mine, f"https://shop.example/items/{other.item}"} <= set(hook.told()),
               "the new pages")
    mark = len(hook.calls)
    assert server.admin("PUT", f"/sales/{lot.sale}", dict(name="new")).status == 200
    eventually(lambda: mine in hook.told(mark), "the changed page")
    assert set(hook.told(mark)) == {mine, "https://shop.example/"}
    assert "a-secret" not in server.log()


def test_a_hook_that_is_down_is_told_later(make_server, hook, tmp_path):
    server = make_server(**purging(hook, tmp_path))
    shop = Shop(server)
    lots = [shop.lot(state="warm") for _ in range(3)]
    eventually(lambda: "pages.purge_failed" in server.log(), "the failure in the log")
    hook.status = 503
    hook.start()
    eventually(lambda: len(hook.calls) >= 2, "attempts")
    hook.status = 200
    wanted = {f"https://shop.example/items/{lot.item}" for lot in lots}
    eventually(lambda: wanted <= set(hook.told()), "what had changed")
    eventually(lambda: "pages.purge_back" in server.log(), "the recovery in the log")
    assert len(hook.told()) == len(set(hook.told())), "each page is told once"


@pytest.mark.embedded
def test_what_was_not_told_is_told_after_a_restart(make_server, hook, tmp_path):
    hook.start()
    server = make_server(**purging(hook, tmp_path))
    shop = Shop(server)
    kept = shop.lot(state="warm")
    eventually(lambda: f"https://shop.example/items/{kept.item}" in hook.told(), "the first page")
    eventually(lambda: f"/items/{kept.item}" in open(f"{server.data}/pages.purged").read(),
               "the note of it")
    hook.stop()
    missed = shop.lot(state="warm")
    wait_page(server, f"/items/{missed.item}", bool, "the second page")
    server.restart(kill=True)
    mark = len(hook.calls)
    hook.start()
    eventually(lambda: f"https://shop.example/items/{missed.item}" in hook.told(mark), "the rest")
    assert f"https://shop.example/items/{kept.item}" not in hook.told(mark)


def test_a_silent_hook_keeps_nobody_waiting(make_server, hook, tmp_path):
    import socket
    with socket.create_server(("127.0.0.1", hook.port)) as silent:
        server = make_server(**purging(hook, tmp_path))
        taken, _ = silent.accept()
        lot = Shop(server).lot(state="warm")
        wait_page(server, f"/items/{lot.item}", bool, "pages while the hook is silent")
        server.stop()  # within the guard, though the call has not been answered
        taken.close()


def test_settings_of_the_hook_are_checked():
    for setting in ("pages.purge_url=https://cdn.example/", "pages.purge_url=ftp://x",
                    "pages.purge_url=http://", "pages.base_url=https://shop.example/path",
                    "pages.base_url=*", "pages.memory_mib=0"):
        code, _, err = run("serve", "--print-config", "--set", setting)
        assert code == 2 and setting.split("=")[0] in err, (setting, err)


# ---------------------------------------------------------------- sluice pages, and nginx

def copy(server, folder):
    done = subprocess.run([BINARY, "pages", "--out", str(folder), "--url",
                           f"http://127.0.0.1:{server.port}"], capture_output=True, text=True,
                          timeout=GUARD_S)
    assert done.returncode == 0, done
    return done.stdout


NGINX = """
daemon off; master_process off; error_log stderr; pid {folder}/nginx.pid;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/t; proxy_temp_path {folder}/t; fastcgi_temp_path {folder}/t;
    uwsgi_temp_path {folder}/t; scgi_temp_path {folder}/t;
    types {{
        text/html html; text/css css; text/javascript js; image/svg+xml svg; application/json json;
    }}
    server {{
        listen 127.0.0.1:{port};
        root {root};
        gzip_static on;
        gzip_vary on;
        location /assets/ {{ add_header Cache-Control "public, max-age=31536000, immutable"; }}
        location / {{ try_files $uri $uri.html $uri/index.html =404; }}
        error_page 404 /404.html;
    }}
}}
"""


@pytest.fixture
def nginx(tmp_path):
    """Serves a folder as docs/PAGES.md shows it; its address."""
    started = []

    def start(root):
        port = private_port()
        (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path, port=port, root=root))
        program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
        assert program, "nginx is in script/packages"
        started.append(subprocess.Popen([program, "-p", str(tmp_path), "-c",
                                         str(tmp_path / "nginx.conf")],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def answers():
            assert started[-1].poll() is None, "nginx has ended"
            try:
                Conn(("127.0.0.1", port)).close()
                return True
            except OSError:
                return False
        eventually(answers, "nginx")
        return ("127.0.0.1", port)

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=GUARD_S)


def fetch(address, path, encoding):
    with Conn(address) as conn:
        conn.send(request_bytes("GET", path, headers=[("Accept-Encoding", encoding)]))
        return conn.read_response()


def test_copied_pages_are_served_alike_by_nginx(server, shop, nginx, tmp_path):
    lot = shop.lot(state="warm")
    wait_page(server, f"/items/{lot.item}", bool, "the page")
    folder = tmp_path / "www"
    copy(server, folder)
    address = nginx(folder)
    manifest = server.get("/pages.json").json()
    paths = [entry["path"] for entry in manifest["pages"]] + manifest["assets"]
    assert {"/", "/orders", f"/items/{lot.item}"} <= set(paths) and len(manifest["assets"]) > 3
    for path in paths:
        for encoding in ("gzip", "identity"):
            ours, theirs = fetch(server.address, path, encoding), fetch(address, path, encoding)
            assert theirs.status == ours.status == 200, path
            assert theirs.body == ours.body, (path, encoding)
            assert theirs.get("content-encoding") == ours.get("content-encoding"), path
            assert theirs.get("content-type").split(";")[0] == \
                ours.get("content-type").split(";")[0], path
    missing = fetch(address, "/items/999999", "gzip")
    assert missing.status == 404 and b"<!doctype html>" in gzip.decompress(missing.body).lower()


def test_copying_again_brings_what_changed_and_removes_what_is_gone(server, shop, tmp_path):
    folder = tmp_path / "deep" / "www"
    lot = shop.lot(state="warm")
    wait_page(server, f"/items/{lot.item}", bool, "the page")
    copy(server, folder)
    mine = folder / "items" / f"{lot.item}.html"
    assert mine.read_text() == body(page(server, f"/items/{lot.item}"))
    assert gzip.decompress((folder / "items" / f"{lot.item}.html.gz").read_bytes()) == \
        mine.read_bytes()
    assert (folder / "index.html").exists() and (folder / "orders.html").exists()
    missing = server.get("/items/0", headers=HTML)
    assert (folder / "404.html").read_bytes() == missing.body
    kept = folder / "items" / "of-the-shop.html"
    kept.write_text("not ours")
    # A page that an earlier run wrote and the server does not have.
    gone = folder / "items" / "999999999.html"
    gone.write_text("old")
    with open(folder / ".sluice-pages", "a") as notes:
        notes.write("items/999999999.html\n../../outside.html\n")
    outside = tmp_path / "outside.html"
    outside.write_text("not ours")
    assert server.admin("PUT", f"/sales/{lot.sale}", dict(name="renamed")).status == 200
    wait_page(server, f"/items/{lot.item}", lambda text: "renamed" in text, "the new page")
    out = copy(server, folder)
    assert "0 new files" in out and "1 removed" in out, out
    assert "renamed" in mine.read_text()
    assert not gone.exists() and kept.exists() and outside.exists()
    assert not [name for _, _, files in os.walk(folder) for name in files if
                name.endswith(".tmp")]


def test_a_copy_that_broke_off_is_not_forgotten(server, shop, tmp_path):
    folder = tmp_path / "www"
    lot = shop.lot(state="warm")
    wait_page(server, f"/items/{lot.item}", bool, "the page")
    (folder / "orders.html").mkdir(parents=True)  # comes after the items, and cannot be written
    code, out, err = run("pages", "--out", folder, "--url", f"http://127.0.0.1:{server.port}")
    assert code == 1 and not out and "orders.html" in err, err
    assert (folder / "items" / f"{lot.item}.html").exists()
    assert f"items/{lot.item}.html" in (folder / ".sluice-pages").read_text().split()
    (folder / "orders.html").rmdir()
    copy(server, folder)
    assert (folder / "orders.html").is_file()
    assert not (folder / ".sluice-pages.new").exists()


def test_the_command_says_what_is_wrong(server, tmp_path):
    url = f"http://127.0.0.1:{server.port}"
    for arguments, code in ((["--url", url], 2), (["--out", str(tmp_path), "x"], 2),
                            (["--out", str(tmp_path), "--url", "https://x"], 1),
                            (["--out", str(tmp_path), "--url",
                              f"http://127.0.0.1:{private_port()}"], 1),
                            (["--out", "/proc/no", "--url", url], 1)):
        got, out, err = run("pages", *arguments)
        assert got == code and not out and err.startswith("sluice pages: "), (arguments, out, err)
