"""script/bench when some of its parts fail: the others are measured and printed, and it exits with 1."""
import json
import os
import subprocess
import sys
import types

import pytest

import sluicelib

sys.path.insert(0, os.path.join(sluicelib.ROOT, "test/bench"))
import bench  # noqa: E402

SECTION = types.SimpleNamespace(title="title", ratios=[("ours beside theirs", "ours", "peer", 1)])


def make_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run_bench(folder, *words):
    return subprocess.run([os.path.join(sluicelib.ROOT, "script/bench"), *words], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=sluicelib.GUARD_S,
                          env=dict(os.environ, SLUICE=str(folder / "sluice")))


@pytest.fixture
def programs(tmp_path):
    """A server that does not start, and a benchmark that fails between two that do not."""
    make_program(tmp_path / "sluice", "exit 7")
    make_program(tmp_path / "test/bench_a", "echo 1 ns")
    make_program(tmp_path / "test/bench_b", "echo it broke; exit 3")
    make_program(tmp_path / "test/bench_c", "echo 2 ns")
    return tmp_path


def test_the_table_has_what_worked_and_what_failed(programs):
    done = run_bench(programs, "--quick", "--only", "embedded,micro")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "embedded: FAILED: " in done.stdout
    assert "\nbench_a\n1 ns\n" in done.stdout and "\nbench_c\n2 ns\n" in done.stdout
    assert "bench_b: FAILED: ended with status 3:\nit broke" in done.stdout
    assert "bench: failed: embedded, bench_b" in done.stderr


def test_the_json_has_what_worked_and_what_failed(programs):
    done = run_bench(programs, "--quick", "--only", "embedded,micro", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["micro"] == {"bench_a": "1 ns", "bench_c": "2 ns"}
    assert [one["what"] for one in told["failed"]] == ["embedded", "bench_b"]
    assert "it broke" in told["failed"][1]["error"]


def test_a_bench_that_fails_nowhere_ends_with_0(programs):
    (programs / "test/bench_b").unlink()
    done = run_bench(programs, "--only", "micro", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["failed"] == []


def test_no_benchmark_at_all_is_a_failure(programs):
    for path in (programs / "test").iterdir():
        path.unlink()
    done = run_bench(programs, "--only", "micro", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["failed"][0]["what"] == "micro"


@pytest.mark.parametrize("broken", ("disk", "memory"))
def test_one_half_of_a_section_fails_alone(broken, monkeypatch):
    class Relay(types.SimpleNamespace):
        def __init__(self, _options, _folder, where):
            super().__init__(where=where, **vars(SECTION))

        def rounds(self):
            if self.where == broken:
                raise AssertionError("the broker did not start")
            yield {"ours": {"rate": 4.0}, "peer": {"rate": 2.0}}

    monkeypatch.setitem(sys.modules, "peers",
                        types.SimpleNamespace(RedisBuys=None, Relay=Relay, Ledger=None))
    monkeypatch.setattr(bench, "peer_places", lambda: [("disk", None), ("memory", None)])
    monkeypatch.setenv("SLUICE", sluicelib.BINARY)
    report = bench.Report(types.SimpleNamespace(json=True, result=None, orders=1, rounds=1))
    report.measure("relay", None)
    assert [one["ratios"][0]["median"] for one in report.told["relay"]] == [2.0]
    assert report.told["failed"] == [{"what": f"relay ({broken})",
                                      "error": "AssertionError: the broker did not start"}]
    assert report.end() == 1
