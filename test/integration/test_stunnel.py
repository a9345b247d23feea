"""The stunnel example of deploy/: a shop sells with its Redis and RabbitMQ behind TLS, nobody without a
certificate of the installation reaches them, and a server with another name is refused.
"""
import os
import re
import socket
import ssl
import subprocess

import pytest

import enginelib
import marialib
import sluicelib
from sluicelib import Shop, eventually

STUNNEL = marialib.find("stunnel4") or marialib.find("stunnel")
OPENSSL = marialib.find("openssl")
pytestmark = [
    pytest.mark.skipif(not STUNNEL or not OPENSSL, reason="no stunnel4 or no openssl"),
    pytest.mark.skipif(enginelib.missing() != "", reason=f"not installed: {enginelib.missing()}")]
FOLDER = os.path.join(sluicelib.ROOT, "deploy/stunnel")
NAME = "servers.sluice.internal"


def openssl(*words):
    done = subprocess.run([OPENSSL, *map(str, words)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=sluicelib.GUARD_S)
    assert done.returncode == 0, done.stderr


def make_ca(folder, name="ca"):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out",
            folder / f"{name}.pem")


def make_certificate(folder, name, host, ca="ca"):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
            f"/CN={host}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
    (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{host}\n")
    openssl("x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / f"{ca}.pem", "-CAkey",
            folder / f"{ca}.key", "-CAcreateserial", "-days", "2", "-extfile",
            folder / f"{name}.ext", "-out", folder / f"{name}.pem")


class Stunnel:
    """An example of deploy/ with this test's addresses and files in it."""

    def __init__(self, folder, example, machine, ports):
        """ports: {the example's address: ours}."""
        with open(f"{FOLDER}/{example}", encoding="utf-8") as file:
            text = file.read()
        for ours, theirs in ((f"{machine}.pem", "machine.pem"), (f"{machine}.key", "machine.key"),
                             ("ca.pem", "ca.pem")):
            assert f"/etc/sluice/tls/{theirs}" in text
            text = text.replace(f"/etc/sluice/tls/{theirs}", str(folder / ours))
        for theirs, ours in ports.items():
            assert f"= {theirs}\n" in text, (theirs, text)
            text = text.replace(f"= {theirs}\n", f"= {ours}\n")
        path = folder / f"{machine}-{example}"
        path.write_text(text)
        self.log_path = folder / f"{machine}-{example}.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([STUNNEL, str(path)], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        self.ports = [int(ours.split(":")[1]) for ours in
                      re.findall(r"^accept = (\S+)$", text, re.M)]
        eventually(self.takes, f"stunnel: {self.log_path}")

    def takes(self):
        assert self.process.poll() is None, self.log_path.read_text()
        try:
            for port in self.ports:
                socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    def discard(self):
        self.process.terminate()
        self.process.wait(sluicelib.GUARD_S)


@pytest.fixture
def tunnels(tmp_path):
    """Both ends between the shared servers and ports of this test's own."""
    shared = enginelib.shared()
    if shared.rabbit is None:
        pytest.skip("no RabbitMQ")
    make_ca(tmp_path)
    make_ca(tmp_path, "others")
    make_certificate(tmp_path, "servers", NAME)
    make_certificate(tmp_path, "shop", "shop.sluice.internal")
    make_certificate(tmp_path, "stranger", NAME, ca="others")
    wire = {"redis": sluicelib.private_port(), "rabbitmq": sluicelib.private_port()}
    made = []

    def start(example, machine):
        if example == "server.conf":
            ports = {"0.0.0.0:6390": f"127.0.0.1:{wire['redis']}",
                     "127.0.0.1:6379": f"127.0.0.1:{shared.redis.port}",
                     "0.0.0.0:5690": f"127.0.0.1:{wire['rabbitmq']}",
                     "127.0.0.1:5672": f"127.0.0.1:{shared.rabbit.port}"}
        else:
            near = [sluicelib.private_port(), sluicelib.private_port()]
            ports = {"127.0.0.1:6379": f"127.0.0.1:{near[0]}",
                     f"{NAME}:6390": f"127.0.0.1:{wire['redis']}",
                     "127.0.0.1:5672": f"127.0.0.1:{near[1]}",
                     f"{NAME}:5690": f"127.0.0.1:{wire['rabbitmq']}"}
        made.append(Stunnel(tmp_path, example, machine, ports))
        return made[-1]

    start.wire, start.folder = wire, tmp_path
    yield start
    for one in made:
        one.discard()


def redis_ping(port, context=None):
    """What Redis says; an exception, or b"", if nobody lets us in."""
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        wire = context.wrap_socket(plain, server_hostname=NAME) if context else plain
        wire.sendall(b"PING\r\n")
        return wire.recv(100)


def is_refused(port, context=None):
    try:
        return b"PONG" not in redis_ping(port, context)
    except OSError:
        return True


def test_a_shop_sells_through_the_tunnels(tunnels, make_server):
    tunnels("server.conf", "servers")
    near = tunnels("client.conf", "shop")
    shared = enginelib.shared()
    settings, database = shared.settings()
    settings = [one.replace(f":{shared.redis.port}", f":{near.ports[0]}")
                if one.startswith("redis.url=") else
                one.replace(f":{shared.rabbit.port}", f":{near.ports[1]}")
                if one.startswith("amqp.url=") else one for one in settings]
    assert sum(f":{port}" in one for one in settings for port in near.ports) == 2
    server = make_server(sets=[*settings, *enginelib.PATIENT], database=database)
    shop = Shop(server)
    lot = shop.lot(total=5, limit=0)
    order = shop.order_locked(1, lot.item, 2)["order_id"]
    shop.paid(order, 2 * lot.price)
    shop.wait_counters(lot.item, 3, 0, 2)


def test_the_wire_is_closed_to_others(tunnels):
    tunnels("server.conf", "servers")
    port, folder = tunnels.wire["redis"], tunnels.folder
    ours = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    ours.load_cert_chain(str(folder / "shop.pem"), str(folder / "shop.key"))
    assert b"PONG" in redis_ping(port, ours)
    assert is_refused(port), "plain words reached Redis"
    without = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    assert is_refused(port, without), "a client without a certificate reached Redis"
    without.load_cert_chain(str(folder / "stranger.pem"), str(folder / "stranger.key"))
    assert is_refused(port, without), "a certificate of another CA reached Redis"


def test_another_machine_is_not_the_server(tunnels):
    """It has a certificate of the installation, but another name."""
    tunnels("server.conf", "shop")
    near = tunnels("client.conf", "shop")
    assert is_refused(near.ports[0]), "the client talks to a machine of another name"
