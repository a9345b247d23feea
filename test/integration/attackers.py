"""Attackers of `script/drill attack-*`, each a process of its own.

  attackers.py KIND PORT [ARGUMENT...]

Attacks the server on 127.0.0.1:PORT until SIGTERM. Prints a line of JSON with its counters several
times a second: `acts` (what it has done), `open` (connections it holds now), and what it was told.

  silent PORT COUNT NETWORK     COUNT connections from 200 addresses of NETWORK (127.0.1) that never
                                send a byte; each one that is closed is opened again
  slow-bodies PORT COUNT        COUNT requests to /v1/payments whose bodies never end
  slow-readers PORT COUNT PATH  COUNT connections that ask for PATH and read nothing
  forged PORT COUNT FILE        COUNT connections that ask for /v1/me/orders with the tokens of FILE,
                                each with other random bytes as its signature
"""
import base64
import collections
import json
import os
import resource
import secrets
import selectors
import signal
import socket
import sys
import time

TOLD_EVERY_S = 0.1
AGAIN_S = 0.05  # between attempts to open a connection that was refused
IP_BIND_ADDRESS_NO_PORT = 24  # the port is chosen by connect(), which knows the other end


class Attacker:
    """Holds COUNT connections and opens each one again when it ends."""

    per_turn = 200  # connections opened in one iteration

    def __init__(self, port, count):
        self.address, self.count = ("127.0.0.1", port), count
        self.selector, self.open = selectors.DefaultSelector(), {}
        self.said = collections.Counter()
        self.ended = False

    def first(self, sock):
        """What a new connection sends."""
        return b""

    def readable(self, sock, data):
        """Bytes arrived."""

    def events(self):
        return selectors.EVENT_READ

    def connect(self):
        sock = socket.socket()
        try:
            self.prepare(sock)
            sock.connect(self.address)
            sock.setblocking(False)
            self.send(sock, self.first(sock))
        except OSError:
            self.said["refused"] += 1
            sock.close()
            return False
        self.selector.register(sock, self.events())
        self.open[sock] = True
        self.said["acts"] += 1
        return True

    def prepare(self, sock):
        """Options of a socket before it connects."""

    def send(self, sock, data):
        try:
            sock.send(data)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass  # reading will tell

    def close(self, sock):
        self.selector.unregister(sock)
        del self.open[sock]
        sock.close()

    def turn(self):
        for _ in range(min(self.per_turn, self.count - len(self.open))):
            if not self.connect():
                time.sleep(AGAIN_S)
                break
        for key, _ in self.selector.select(0.02):
            try:
                data = key.fileobj.recv(65536)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if data:
                self.readable(key.fileobj, data)
            else:
                self.said["closed"] += 1
                self.close(key.fileobj)

    def tell(self):
        print(json.dumps({"open": len(self.open), **self.said}), flush=True)

    def run(self):
        told = 0.0
        while not self.ended:
            self.turn()
            if time.monotonic() - told > TOLD_EVERY_S:
                told = time.monotonic()
                self.tell()
        self.tell()


class Silent(Attacker):
    def __init__(self, port, count, network):
        super().__init__(port, count)
        self.network, self.made = network, 0

    def prepare(self, sock):
        self.made += 1
        sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        sock.bind((f"{self.network}.{1 + self.made % 200}", 0))


class SlowBodies(Attacker):
    """A head that looks like a payment, then a byte of its body now and then."""

    trickled = 0.0

    def first(self, sock):
        stamp = int(time.time())
        return (f"POST /v1/payments HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                f"webhook-id: {secrets.token_hex(8)}\r\nwebhook-timestamp: {stamp}\r\n"
                f"webhook-signature: v1,{base64.b64encode(secrets.token_bytes(32)).decode()}\r\n"
                "Content-Length: 60000\r\n\r\n").encode() + b"{" * 8000

    def turn(self):
        super().turn()
        if time.monotonic() - self.trickled > 0.5:
            self.trickled = time.monotonic()
            for sock in list(self.open):
                try:
                    sock.send(b"{")
                except OSError:
                    pass


class SlowReaders(Attacker):
    """Asks eight times and reads nothing: its receive buffer is as small as the kernel lets it be."""

    def __init__(self, port, count, path):
        super().__init__(port, count)
        self.request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * 8

    def prepare(self, sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)

    def first(self, sock):
        return self.request

    def turn(self):
        """Never reads; a connection that the server has reset is opened again."""
        for _ in range(min(self.per_turn, self.count - len(self.open))):
            if not self.connect():
                time.sleep(AGAIN_S)
                break
        time.sleep(0.02)
        for sock in list(self.open):
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.said["closed"] += 1
                self.close(sock)


class Forged(Attacker):
    """Every request has another signature, so no memory of tokens helps. They come from a hundred
    addresses."""

    def __init__(self, port, count, path):
        super().__init__(port, count)
        self.turned = 0
        with open(path, encoding="ascii") as file:
            self.signed = [line.strip().rsplit(".", 1)[0] for line in file]

    def prepare(self, sock):
        self.turned += 1
        sock.bind((f"127.0.1.{1 + self.turned % 100}", 0))

    def first(self, sock):
        head = self.signed[self.said["acts"] % len(self.signed)]
        # The last byte of S stays small: a signature out of range costs the server nothing.
        signature = base64.urlsafe_b64encode(secrets.token_bytes(63) + b"\x01").rstrip(b"=")
        return (f"GET /v1/me/orders HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {head}."
                f"{signature.decode()}\r\n\r\n").encode()

    def readable(self, sock, data):
        if data.startswith(b"HTTP/1.1 "):
            self.said[data[9:12].decode("latin-1")] += 1
            self.said["acts"] += 1
            self.send(sock, self.first(sock))


KINDS = {"silent": Silent, "slow-bodies": SlowBodies, "slow-readers": SlowReaders,
         "forged": Forged}


def main():
    kind, port, count, *more = sys.argv[1:]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    os.nice(5)  # it attacks the server, not the machine that honest buyers need, too
    attacker = KINDS[kind](int(port), int(count), *more)

    def end(*_):
        attacker.ended = True

    signal.signal(signal.SIGTERM, end)
    attacker.run()


if __name__ == "__main__":
    main()
