"""script/bench: measures Sluice beside peers, on the same machine in the same minutes.

  script/bench                     everything, five rounds each, about a quarter of an hour
  script/bench --only embedded     one section of: embedded redis relay ledger micro
  script/bench --quick             two short rounds
  script/bench --json              the figures as JSON
  script/bench --result NAME       writes the figures to docs/results/NAME.md, too
  script/bench --against PROGRAM   compares the sections with those of another build of sluice, in
                                   turns: ratios of each round, their median and spread (against.py)

The server runs on one core, the load on another. Both sides are measured in turns inside each round,
because absolute rates vary by a quarter between minutes: only ratios inside one run mean something.
On a machine with other work, `--nice -20` (as root) gives the measured processes nearly all of their
cores. `sluice bench` makes the load on both sides; wrk against nginx shows whether that tool is the
limit. The section embedded measures

  nginx      `return 200`, keep-alive, 64 connections
  refusals   buys of an item that is sold out: rate, and CPU time of the server for each
  orders     buys that are answered 202 when they are durable, 64 and 256 connections,
             each run on a fresh server and audited against its ledger afterwards

The sections of the distributed engine run twice, with files on disk and in memory (docs/BENCH.md):

  redis      buys while Redis decides, front and Redis sharing a core, beside nginx with Lua that
             runs the same script on the same Redis
  relay      messages from an outbox to RabbitMQ, beside a bare publisher with the same window
  ledger     orders booked in MariaDB, beside one transaction per order on eight connections

micro runs the small benchmarks of the build.

Installs and builds what is missing; $SLUICE names another program to measure. If a part fails, the
others are still measured, and its error is printed in its place (in JSON: `failed`). Exit 0:
measured; 1: something failed, an audit included; 2: usage. A missed aim is printed and does not change
the exit status.
"""
import argparse
import glob
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "test/integration"), HERE]

import against  # noqa: E402
import resultlib  # noqa: E402
import setuplib  # noqa: E402
from setuplib import Failed, progress  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
AIM_REFUSAL_CPU = 0.9
AIM_ORDER_RATE = 0.5
PEER_ORDERS = 40000
SECTIONS = ("embedded", "redis", "relay", "ledger", "micro")
MEMORY = "/dev/shm"
NEED_SERVERS = ("bench_amqp", "bench_ledger_mariadb")  # run by their sections
FAR_FUTURE_MS = 4102444800000
NICE = 0  # of whatever is measured; set by --nice
NGINX_CONF = """
daemon off;
worker_processes 1;
pid {dir}/pid;
error_log {dir}/error.log;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "ok\\n"; }} }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(ready, process, what):
    """Polls until ready() is true; a minute is a hang, not a verdict."""
    end = time.monotonic() + 60
    while not ready():
        if process.poll() is not None:
            raise Failed(f"{what} ended with status {process.returncode}")
        if time.monotonic() > end:
            raise Failed(f"{what} did not become ready")
        time.sleep(0.02)


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(pid):
    """CPU time of a process, all its threads, as far as the kernel's tick shows it."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def on_core(core, command):
    nice = ["nice", "-n", str(NICE)] if NICE else []
    return nice + ["taskset", "-c", str(core)] + command


class Nginx:
    def __init__(self, folder, core):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        os.mkdir(folder)
        conf = os.path.join(folder, "nginx.conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write(NGINX_CONF.format(dir=folder, port=self.port))
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self.process = subprocess.Popen(
            on_core(core, [program, "-p", folder, "-c", conf, "-e", f"{folder}/error.log"]),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: answers(self.url + "/"), self.process, "nginx")
        self.worker = children(self.process.pid)[0]

    def cpu(self):
        return cpu_seconds(self.worker)

    def stop(self):
        stop(self.process)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def without_limits(program):
    """Options: without the rate limits that ship. An older program has none."""
    told = subprocess.run([program, "serve", "--print-config"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    return ["--set", "admission.defaults=false"] if "\nadmission {" in told.stdout else []


class Sluice:
    """One server on a fresh data folder."""

    def __init__(self, program, folder, core):
        self.data = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = folder + ".log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                on_core(core, [program, "serve", "--listen", self.url[len("http://"):],
                               "--data", folder, "--set", "server.threads=1", *without_limits(program)]),
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            wait_until(lambda: answers(self.url + "/readyz"), self.process, "sluice serve")
        except Failed as failure:
            stop(self.process)
            with open(self.log, encoding="utf-8", errors="replace") as log:
                raise Failed(f"{failure}:\n{log.read()[-2000:]}") from None

    def cpu(self):
        return cpu_seconds(self.process.pid)

    def stop(self):
        stop(self.process)

    def admin(self, path, body=None):
        with open(os.path.join(self.data, "admin.token"), encoding="ascii") as file:
            token = file.read().strip()
        request = urllib.request.Request(
            self.url + path, method="POST",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failed(f"POST {path}: {error.code} {error.read().decode()}") from None

    def item(self, total):
        """An item in an open sale of its own, one to a buyer."""
        sale = self.admin("/v1/admin/sales", {
            "name": "bench", "starts_at_ms": 1, "ends_at_ms": FAR_FUTURE_MS, "pay_within_s": 86400,
            "items": [{"name": "bench", "price_cents": 100, "total": total, "limit_per_user": 1}]})
        self.admin(f"/v1/admin/sales/{sale['id']}/open")
        return sale["items"][0]["id"]


class Bench:
    def __init__(self, options, program, folder):
        self.options = options
        self.program = program
        self.folder = folder
        self.servers = 0

    def load(self, url, *arguments):
        command = on_core(self.options.load_core,
                          [self.program, "bench", "--json", "--url", url, *arguments])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0 or not done.stdout:
            raise Failed(f"{' '.join(command)} ended with status {done.returncode}:\n"
                         f"{done.stderr.decode()}{done.stdout.decode()}")
        return json.loads(done.stdout)

    def seconds(self):
        return str(self.options.seconds)

    def nginx_wrk(self, nginx):
        before = nginx.cpu()
        done = subprocess.run(
            on_core(self.options.load_core,
                    ["wrk", "-t1", "-c64", f"-d{max(1, round(self.options.seconds))}s",
                     nginx.url + "/"]),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        lines = done.stdout.decode().splitlines()
        count = [int(line.split()[0]) for line in lines if " requests in " in line]
        rate = [float(line.split()[1]) for line in lines if line.startswith("Requests/sec:")]
        if done.returncode != 0 or not count or not rate:
            raise Failed("wrk: " + done.stderr.decode() + done.stdout.decode())
        return {"rate": rate[0], "cpu_us": (nginx.cpu() - before) / count[0] * 1e6}

    def nginx_own(self, nginx):
        before = nginx.cpu()
        told = self.load(nginx.url, "--get", "/", "--connections", "64",
                         "--duration", self.seconds())
        return {"rate": told["requests_per_s"], "p99_us": told["p99_us"],
                "cpu_us": (nginx.cpu() - before) / told["requests"] * 1e6}

    def server(self):
        self.servers += 1
        return Sluice(self.program, os.path.join(self.folder, f"data{self.servers}"),
                      self.options.server_core)

    def refusals(self, server):
        item = server.item(1)
        before = server.cpu()
        told = self.load(server.url, "--data", server.data, "--item", str(item), "--hammer",
                         "--users", "80", "--connections", "64", "--no-audit",
                         "--duration", self.seconds())
        refused = told["refused"].get("sold_out", 0)
        if refused < 0.99 * told["requests"]:
            raise Failed(f"not all sold out: {told}")
        return {"rate": told["requests_per_s"], "p99_us": told["p99_us"],
                "cpu_us": (server.cpu() - before) / told["requests"] * 1e6}

    def orders(self, connections):
        server = self.server()
        try:
            item = server.item(self.options.orders * 2)
            told = self.load(server.url, "--data", server.data, "--item", str(item), "--prefetch",
                             "--users", str(self.options.orders), "--result", "none",
                             "--connections", str(connections))
        finally:
            server.stop()
            shutil.rmtree(server.data, ignore_errors=True)
        if told["orders"] != self.options.orders or told["errors"] != 0:
            raise Failed(f"not every buy became an order: {told}")
        return {"rate": told["orders_per_s"], "p99_us": told["p99_us"]}

    def run(self):
        rounds = []
        nginx = Nginx(os.path.join(self.folder, "nginx"), self.options.server_core)
        try:
            server = self.server()
            try:
                for number in range(1, self.options.rounds + 1):
                    done = {}
                    for name, step in (
                            ("nginx_wrk", lambda: self.nginx_wrk(nginx)),
                            ("nginx", lambda: self.nginx_own(nginx)),
                            ("refusals", lambda: self.refusals(server)),
                            ("orders_64", lambda: self.orders(64)),
                            ("orders_256", lambda: self.orders(256))):
                        progress(f"round {number} of {self.options.rounds}: {name}")
                        done[name] = step()
                    rounds.append(done)
            finally:
                server.stop()
        finally:
            nginx.stop()
            progress("")
        return rounds


def spread(rounds, name, figure):
    values = [done[name][figure] for done in rounds if figure in done[name]]
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratio(rounds, name, figure):
    """Each round's ratio to nginx of the same round; then their median and spread."""
    values = [done[name][figure] / done["nginx"][figure] for done in rounds]
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summary(rounds):
    figures = {name: {figure: spread(rounds, name, figure)
                      for figure in ("rate", "cpu_us", "p99_us")}
               for name in rounds[0]}
    ratios = {
        "refusal_cpu": dict(ratio(rounds, "refusals", "cpu_us"), aim=AIM_REFUSAL_CPU),
        "refusal_rate": ratio(rounds, "refusals", "rate"),
        "orders_64_rate": dict(ratio(rounds, "orders_64", "rate"), aim=AIM_ORDER_RATE),
        "orders_256_rate": dict(ratio(rounds, "orders_256", "rate"), aim=AIM_ORDER_RATE),
    }
    ratios["refusal_cpu"]["met"] = ratios["refusal_cpu"]["median"] <= AIM_REFUSAL_CPU
    for name in ("orders_64_rate", "orders_256_rate"):
        ratios[name]["met"] = ratios[name]["median"] >= AIM_ORDER_RATE
    return {"rounds": len(rounds), "figures": figures, "ratios_to_nginx": ratios}


def micro_programs():
    """name -> path of the programs bench_* of the build that need no servers."""
    folder = os.path.dirname(program_path())
    found = {os.path.basename(path): path for path in sorted(glob.glob(f"{folder}/test/bench_*"))
             if os.access(path, os.X_OK) and os.path.isfile(path)}
    found = {name: path for name, path in found.items() if name not in NEED_SERVERS}
    if not found:
        raise Failed(f"no benchmark in {folder}/test")
    return found


def micro_benchmark(program):
    """What it prints."""
    progress(os.path.basename(program))
    done = subprocess.run([program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    progress("")
    text = done.stdout.decode(errors="replace").rstrip()
    if done.returncode != 0:
        raise Failed(f"ended with status {done.returncode}:\n{text[-2000:]}")
    return text


LABELS = {
    "nginx_wrk": "nginx return 200, wrk",
    "nginx": "nginx return 200",
    "refusals": "sold-out refusals",
    "orders_64": "durable orders, 64 conn.",
    "orders_256": "durable orders, 256 conn.",
}


def print_table(told):
    print(f"{'':26}{'rate/s':>9}{'min..max':>20}{'CPU us':>8}{'min..max':>14}{'p99 us':>9}")
    for name, label in LABELS.items():
        figures = told["figures"][name]
        rate, cpu, p99 = figures["rate"], figures["cpu_us"], figures["p99_us"]
        rates = f"{rate['min']:,.0f}..{rate['max']:,.0f}"
        print(f"{label:26}{rate['median']:9,.0f}{rates:>20}", end="")
        print(f"{cpu['median']:8.2f}{cpu['min']:7.2f}..{cpu['max']:.2f}" if cpu else " " * 21,
              end="")
        print(f"{p99['median']:10,.0f}" if p99 else "")
    print("\nratio to nginx in the same round (median, min..max)")
    for name, value in told["ratios_to_nginx"].items():
        line = f"{name:26}{value['median']:9.3f}  {value['min']:.3f}..{value['max']:.3f}"
        if "aim" in value:
            sign = "<=" if name == "refusal_cpu" else ">="
            line += f"   aim {sign} {value['aim']}: {'met' if value['met'] else 'NOT MET'}"
        print(line)


def peer_places():
    """(name, folder to work in) of the disk and of memory."""
    return [("disk", None)] + ([("memory", MEMORY)] if os.path.isdir(MEMORY) else [])


def peer_section(options, name, where, base):
    """One section beside peers, with its files on the disk or in memory."""
    os.environ["SLUICE"] = program_path()  # what its servers and loads are made of
    import peers
    kind = {"redis": peers.RedisBuys, "relay": peers.Relay, "ledger": peers.Ledger}[name]
    folder = tempfile.mkdtemp(prefix="sluice-bench-", dir=base)
    try:
        section = kind(options, folder, where)
        rounds = []
        for done in section.rounds():
            rounds.append(done)
            progress(f"{name} ({where}): round {len(rounds)} of {options.rounds}")
        return peer_summary(section, rounds)
    finally:
        progress("")
        shutil.rmtree(folder, ignore_errors=True)


def peer_summary(section, rounds):
    figures = {name: {figure: spread(rounds, name, figure) for figure in rounds[0][name]}
               for name in sorted(rounds[0])}
    ratios = []
    for what, ours, peer, aim in section.ratios:
        values = [done[ours]["rate"] / done[peer]["rate"] for done in rounds]
        ratio_of = {"what": what, "median": statistics.median(values), "min": min(values),
                    "max": max(values)}
        if aim is not None:
            ratio_of.update(aim=aim, met=ratio_of["median"] >= aim)
        ratios.append(ratio_of)
    return {"title": section.title, "rounds": len(rounds), "load_average": os.getloadavg()[0],
            "figures": figures, "ratios": ratios}


def print_peers(told):
    print(f"\n{told['title']} ({told['rounds']} rounds, load average {told['load_average']:.1f})")
    for name, figures in told["figures"].items():
        rate, p99, asked = figures["rate"], figures.get("p99_us"), figures.get("asked")
        rates = f"{rate['min']:,.0f}..{rate['max']:,.0f}"
        line = f"  {name:26}{rate['median']:9,.0f}/s{rates:>20}"
        line += f"   p99 {p99['median']:,.0f} us" if p99 else ""
        line += f"   {asked['median']:.2f} calls of Redis for each" if asked else ""
        print(line)
    for value in told["ratios"]:
        line = f"  {value['what']:44}{value['median']:6.2f}  {value['min']:.2f}..{value['max']:.2f}"
        if "aim" in value:
            line += f"   aim >= {value['aim']}: {'met' if value['met'] else 'NOT MET'}"
        print(line)


def range_text(value, digits):
    """A median with its spread."""
    if value is None:
        return ""
    return (f"{value['median']:,.{digits}f} ({value['min']:,.{digits}f} to "
            f"{value['max']:,.{digits}f})")


def figures_table(figures, labels):
    """Only the columns that have a figure."""
    words = [word for word in (("rate", "rate/s", 0), ("cpu_us", "CPU µs", 2),
                               ("p99_us", "p99 µs", 0), ("asked", "calls of Redis", 2))
             if any(found.get(word[0]) for found in figures.values())]
    return resultlib.table(("median (min to max)", *(head for _, head, _ in words)), [
        (labels.get(name, name), *(range_text(found.get(word), digits)
                                   for word, _, digits in words))
        for name, found in figures.items()])


def ratios_table(ratios):
    return resultlib.table(("ratio in the same round", "median (min to max)", "aim"), [
        (what, range_text(value, 2), "" if "aim" not in value else
         f"{value['aim']}, {'met' if value['met'] else 'missed'}") for what, value in ratios])


def markdown(told):
    """Everything that was measured, as the body of a result page."""
    parts = [f"**{one['what']} failed:** {one['error']}\n" for one in told["failed"]]
    if "figures" in told:
        parts.append(f"## Embedded engine beside nginx, {told['rounds']} rounds\n\n" +
                     figures_table(told["figures"], LABELS) + "\n" +
                     ratios_table(told["ratios_to_nginx"].items()))
    for name in ("redis", "relay", "ledger"):
        for one in told.get(name, ()):
            parts.append(f"## {one['title']}, {one['rounds']} rounds, load average "
                         f"{one['load_average']:.1f}\n\n" + figures_table(one["figures"], {}) +
                         "\n" + ratios_table([(value["what"], value) for value in one["ratios"]]))
    for name, text in told.get("micro", {}).items():
        parts.append(f"## {name}\n\n```\n{text}\n```\n")
    return "\n".join(parts)


def program_path():
    return os.path.abspath(os.environ.get("SLUICE") or os.path.join(ROOT, "build/release/sluice"))


def build():
    """The release with its benchmarks. $SLUICE is taken as it is, and so are those beside it."""
    sources = sorted(glob.glob(f"{HERE}/bench_*.c"))
    setuplib.build("bench", targets=("sluice", *(os.path.basename(path)[:-2] for path in sources)))


def parse():
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--result", metavar="NAME", help="write them to docs/results/NAME.md")
    parser.add_argument("--against", metavar="PROGRAM",
                        help="measure another build in turns with this one; not the section micro")
    parser.add_argument("--only", type=sections_of, default=SECTIONS, metavar="SECTION,...",
                        help=f"some of {' '.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, help="how many rounds (5)")
    parser.add_argument("--seconds", type=float, help="length of one measurement (3)")
    parser.add_argument("--orders", type=int, help="orders of one measurement (150000)")
    parser.add_argument("--server-core", type=int, default=0, help="core of the servers (0)")
    parser.add_argument("--load-core", type=int, default=1, help="core of the load (1)")
    parser.add_argument("--nice", type=int, default=0, help="priority of what is measured (0)")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.seconds = options.seconds or (1 if options.quick else 3)
    options.orders = options.orders or (30000 if options.quick else 150000)
    return options


def sections_of(text):
    names = text.split(",")
    if not set(names) <= set(SECTIONS):
        raise argparse.ArgumentTypeError(f"must be some of {' '.join(SECTIONS)}")
    return names


class Report:
    """What was measured and what failed: `told` is printed at the end as JSON, or each part as soon
    as it is there."""

    def __init__(self, options):
        self.options = options
        self.origin = resultlib.origin("script/bench", *sys.argv[1:])
        self.told = {"failed": []}

    def attempt(self, what, work, show):
        """What work() gives, shown; None where it fails: then the error is kept, and the parts that
        follow are measured all the same."""
        try:
            found = work()
        except Exception as error:  # a wrong figure, a server that is missing, our own mistake
            progress("")
            text = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
            self.told["failed"].append({"what": what, "error": text})
            show, found = (lambda _: print(f"\n{what}: FAILED: {text}")), None
        if not self.options.json:
            show(found)
            sys.stdout.flush()
        return found

    def embedded(self, folder):
        bench = Bench(self.options, program_path(), folder)
        self.told.update(self.attempt("embedded", lambda: summary(bench.run()), print_table) or {})

    def micro(self):
        found = self.told["micro"] = {}
        for name, path in (self.attempt("micro", micro_programs, lambda _: None) or {}).items():
            text = self.attempt(name, lambda path=path: micro_benchmark(path),
                                lambda text, name=name: print(f"\n{name}\n{text}"))
            if text is not None:
                found[name] = text

    def peers(self, name):
        options = peer_options(self.options)
        found = [self.attempt(f"{name} ({where})",
                              lambda where=where, base=base: peer_section(options, name, where,
                                                                          base), print_peers)
                 for where, base in peer_places()]
        self.told[name] = [one for one in found if one]

    def measure(self, name, folder):
        """One section."""
        if name == "embedded":
            self.embedded(folder)
        elif name == "micro":
            self.micro()
        else:
            self.peers(name)

    def end(self):
        """The exit status."""
        if self.options.json:
            print(json.dumps(self.told, indent=2))
        if self.options.result:
            page = resultlib.page("Benchmarks", self.origin, markdown(self.told))
            print(f"wrote {resultlib.write(self.options.result, page)}", file=sys.stderr)
        failed = [one["what"] for one in self.told["failed"]]
        if failed:
            print(f"bench: failed: {', '.join(failed)}", file=sys.stderr)
        return 1 if failed else 0


def peer_options(options):
    """Orders stay in the front's spool and in the outbox until they are booked, between turns."""
    return argparse.Namespace(**dict(vars(options), orders=min(options.orders, PEER_ORDERS)))


def main():
    global NICE
    options = parse()
    NICE = options.nice
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that finally blocks run
    folder = tempfile.mkdtemp(prefix="sluice-bench-")
    try:
        build()
        load = os.getloadavg()[0]
        if load > 0.5:
            print(f"bench: the machine is busy (load {load:.1f}); trust the ratios only as far",
                  file=sys.stderr)
        if options.against:
            return against.run(options, program_path())
        report = Report(options)
        for name in options.only:
            report.measure(name, folder)
        return report.end()
    except Failed as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
