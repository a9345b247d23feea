"""A TCP proxy between two processes, for network faults between them.

Proxy      listens on a private port and carries bytes to its target, both ways, until told
           otherwise:
  cut()      nothing passes in either direction, not even the end of a connection
  hold(way)  the same in one direction, UP (to the target) or DOWN (back to the client)
  cut_those(pattern)  a cut for connections that began with these bytes, and for no others
  refuse()   every connection is reset, new ones are refused
  reset()    every connection is reset, new ones are carried
  delay(s)   each piece arrives this much later
  trap(...)  waits for certain bytes, and then holds one direction of that connection
  heal()     ends all of that; what was held is delivered, as after a real cut (TCP sends again)

Nothing is lost, doubled or reordered inside a connection: TCP guarantees that to both peers. One
thread runs every proxy of a process.
"""
import collections
import selectors
import socket
import struct
import threading
import time

import sluicelib

UP, DOWN = "up", "down"
ROOM = 1 << 20  # so much is read ahead of a peer that takes nothing
HEAD = 1024  # so much of a connection's beginning is remembered


class Pipe:
    """One direction of one connection."""

    def __init__(self, link, way, source, sink):
        self.link, self.way, self.source, self.sink = link, way, source, sink
        self.pieces = collections.deque()  # (when due, bytes)
        self.size = 0
        self.ended = self.broken = self.finished = False
        self.seen = b""  # the end of what came through, where a trap looks
        self.trapped = False

    def held(self):
        return self.trapped or self.way in self.link.proxy.holding

    def take(self, data):
        due = time.monotonic() + self.link.proxy.delay_s
        if data:
            self.link.proxy.count(self.way, len(data))
            self.pieces.append([due, data])
            self.size += len(data)
            if self.way == UP and len(self.link.head) < HEAD:
                self.link.head += data[:HEAD - len(self.link.head)]
            self.link.proxy.spring_traps(self, data)
        else:
            self.ended = True


class Link:
    """A connection through the proxy: two sockets, two pipes."""

    def __init__(self, proxy, client):
        self.proxy, self.client, self.server = proxy, client, None
        self.pipes, self.watching = {}, {}
        self.connected = False
        self.head = b""  # what it began with, upwards

    def open(self):
        self.server = socket.socket()
        self.server.setblocking(False)
        self.server.connect_ex(self.proxy.target)
        for sock in (self.client, self.server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pipes = {UP: Pipe(self, UP, self.client, self.server),
                      DOWN: Pipe(self, DOWN, self.server, self.client)}


class Trap:
    """Sprung when `pattern` passes in direction `way`; then `holds` of that connection is held. None:
    nothing is, it only tells."""

    def __init__(self, way, pattern, holds):
        self.way, self.pattern, self.holds = way, pattern, holds
        self.link = None
        self.sprung = threading.Event()


class Engine(threading.Thread):
    """The thread that moves the bytes of all proxies; everything below runs on it."""

    def __init__(self):
        super().__init__(daemon=True, name="proxies")
        self.selector = selectors.DefaultSelector()
        self.orders, self.lock = collections.deque(), threading.Lock()
        self.proxies, self.touched = [], set()
        self.bell, self.ear = socket.socketpair()
        self.bell.setblocking(False)
        self.ear.setblocking(False)
        self.selector.register(self.ear, selectors.EVENT_READ, None)
        self.start()

    def do(self, work):
        """Run work() on the engine's thread; its value."""
        done, box = threading.Event(), []

        def order():
            try:
                box.append(("value", work()))
            except Exception as error:  # handed to the caller
                box.append(("error", error))
            done.set()

        with self.lock:
            self.orders.append(order)
        try:
            self.bell.send(b"!")
        except BlockingIOError:
            pass
        assert done.wait(sluicelib.GUARD_S), "the proxies hang"
        kind, value = box[0]
        if kind == "error":
            raise value
        return value

    def run(self):
        while True:
            ready = self.selector.select(self.patience())
            for key, events in ready:
                if key.fileobj is self.ear:
                    self.ear.recv(4096)
                else:
                    key.data(events)
            with self.lock:
                orders, self.orders = self.orders, collections.deque()
            for order in orders:
                order()
            for proxy in self.proxies:
                if orders or proxy.late:
                    self.touched.update(proxy.links)
            touched, self.touched = self.touched, set()
            for link in touched:
                link.proxy.turn(link)

    def patience(self):
        """Until the next delayed piece is due; those that wait for their peer are watched."""
        dues = []
        for proxy in self.proxies:
            if proxy.late:
                later = [pipe.pieces[0][0] for link in proxy.links for pipe in link.pipes.values()
                         if pipe.pieces and not pipe.held() and
                         not link.watching.get(pipe.sink, 0) & selectors.EVENT_WRITE]
                dues += later
                proxy.late = bool(later) or proxy.delay_s > 0
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def watch(self, sock, events, callback):
        """events 0: not at all."""
        try:
            key = self.selector.get_key(sock)
        except (KeyError, ValueError):
            key = None
        if events == 0:
            if key:
                self.selector.unregister(sock)
        elif key is None:
            self.selector.register(sock, events, callback)
        elif key.events != events or key.data is not callback:
            self.selector.modify(sock, events, callback)


_engine = None


def engine():
    global _engine
    if _engine is None:
        _engine = Engine()
    return _engine


class Proxy:
    def __init__(self, target, name="", port=None):
        """target: (address, port). Listens at once."""
        self.target, self.name = target, name
        self.port = port or sluicelib.private_port()
        self.address = ("127.0.0.1", self.port)
        self.links, self.traps = [], []
        self.holding, self.delay_s, self.late, self.refusing = set(), 0.0, False, False
        self.bytes = {UP: 0, DOWN: 0}
        self.accepted = 0
        self.listener = None
        self.engine = engine()
        self.engine.do(self._begin)

    # ------------------------------------------------------------ for tests, from any thread

    def cut(self):
        return self.engine.do(lambda: self._hold({UP, DOWN}))

    def hold(self, way):
        return self.engine.do(lambda: self._hold({way}))

    def cut_those(self, pattern):
        return self.engine.do(lambda: self._cut_those(pattern))

    def delay(self, seconds):
        self.engine.do(lambda: self._delay(seconds))

    def reset(self):
        """How many connections were ended."""
        return self.engine.do(self._reset)

    def refuse(self):
        return self.engine.do(self._refuse)

    def trap(self, way, pattern, holds):
        trap = Trap(way, pattern, holds)
        self.engine.do(lambda: self.traps.append(trap))
        return trap

    def heal(self):
        self.engine.do(self._heal)

    def connections(self):
        return self.engine.do(lambda: len(self.links))

    def held_bytes(self):
        """What waits inside because of a hold, a cut or a trap."""
        return self.engine.do(lambda: sum(pipe.size for link in self.links
                                          for pipe in link.pipes.values() if pipe.held()))

    def close(self):
        self.engine.do(self._end)

    # ------------------------------------------------------------ on the engine's thread

    def _begin(self):
        self._listen()
        self.engine.proxies.append(self)

    def _end(self):
        self._reset()
        self._stop_listening()
        if self in self.engine.proxies:
            self.engine.proxies.remove(self)

    def _listen(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(self.address)
        self.listener.listen(512)
        self.listener.setblocking(False)
        self.engine.watch(self.listener, selectors.EVENT_READ, self._accept)

    def _stop_listening(self):
        if self.listener:
            self.engine.watch(self.listener, 0, None)
            self.listener.close()
            self.listener = None

    def _hold(self, ways):
        self.holding |= ways
        return len(self.links)

    def _cut_those(self, pattern):
        found = [link for link in self.links if pattern in link.head]
        for link in found:
            for pipe in link.pipes.values():
                pipe.trapped = True
        return len(found)

    def _delay(self, seconds):
        self.delay_s, self.late = seconds, True

    def _refuse(self):
        self.refusing = True
        self._stop_listening()
        return self._reset()

    def _reset(self):
        count = len(self.links)
        for link in list(self.links):
            self._drop(link, reset=True)
        return count

    def _heal(self):
        self.holding, self.delay_s = set(), 0.0
        self.traps = []
        for link in self.links:
            for pipe in link.pipes.values():
                pipe.trapped = False
        if self.refusing:
            self.refusing = False
            self._listen()

    def _accept(self, _events):
        while True:
            try:
                client, _ = self.listener.accept()
            except (BlockingIOError, AttributeError):
                return
            client.setblocking(False)
            self.accepted += 1
            link = Link(self, client)
            self.links.append(link)
            link.open()
            self.engine.touched.add(link)

    def _drop(self, link, reset=False):
        if link not in self.links:
            return
        self.links.remove(link)
        for sock in (link.client, link.server):
            self.engine.watch(sock, 0, None)
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def count(self, way, size):
        self.bytes[way] += size

    def spring_traps(self, pipe, data):
        if not self.traps:
            return
        seen = pipe.seen + data
        for trap in self.traps:
            if trap.way == pipe.way and not trap.sprung.is_set() and trap.pattern in seen:
                if trap.holds is not None:
                    pipe.link.pipes[trap.holds].trapped = True
                trap.link = pipe.link
                trap.sprung.set()
        pipe.seen = seen[-256:]

    def turn(self, link):
        """Move what can be moved and say what is waited for."""
        if link not in self.links:
            return
        for pipe in link.pipes.values():
            if not self._push(link, pipe):
                return
        if all(pipe.finished for pipe in link.pipes.values()):
            self._drop(link)
            return
        for sock, inward, outward in ((link.client, link.pipes[UP], link.pipes[DOWN]),
                                      (link.server, link.pipes[DOWN], link.pipes[UP])):
            events = 0
            if not inward.ended and inward.size < ROOM:
                events |= selectors.EVENT_READ
            if outward.pieces and not outward.held() and outward.pieces[0][0] <= time.monotonic():
                events |= selectors.EVENT_WRITE
            if sock is link.server and not link.connected:
                events |= selectors.EVENT_WRITE
            self._watch(link, sock, inward, events)

    def _watch(self, link, sock, inward, events):
        if link.watching.get(sock) == events:
            return
        link.watching[sock] = events

        def ready(which):
            self.engine.touched.add(link)
            if which & selectors.EVENT_WRITE and sock is link.server and not link.connected:
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    if not self.holding:
                        self._drop(link, reset=True)
                    return
                link.connected = True
            if which & selectors.EVENT_READ:
                self._read(link, inward)

        self.engine.watch(sock, events, ready)

    def _read(self, link, pipe):
        if link not in self.links or pipe.ended:
            return
        try:
            data = pipe.source.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
            pipe.broken = True
        pipe.take(data)

    def _push(self, link, pipe):
        """False: the connection is gone."""
        if pipe.held() or (pipe.sink is link.server and not link.connected):
            return True
        now = time.monotonic()
        while pipe.pieces and pipe.pieces[0][0] <= now:
            try:
                sent = pipe.sink.send(pipe.pieces[0][1])
            except BlockingIOError:
                return True
            except OSError:
                self._drop(link, reset=True)
                return False
            pipe.size -= sent
            if sent == len(pipe.pieces[0][1]):
                pipe.pieces.popleft()
            else:
                pipe.pieces[0][1] = pipe.pieces[0][1][sent:]
        if pipe.ended and not pipe.pieces and not pipe.finished:
            pipe.finished = True
            if pipe.broken:
                self._drop(link, reset=True)
                return False
            try:
                pipe.sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        return True
