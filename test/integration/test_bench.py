"""script/bench when some of its parts fail: the others are measured and printed, and it exits with 1."""
import json
import os
import subprocess
import sys
import types

import pytest

import sluicelib

sys.path.insert(0, os.path.join(sluicelib.ROOT, "test/bench"))
import against  # noqa: E402
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


# ---- two programs in turns

def of_section(rate, cpu_us):
    """What one round of the section embedded prints as JSON."""
    return {"figures": {"refusals": {"rate": {"median": rate}, "cpu_us": {"median": cpu_us},
                                     "p99_us": {"median": 9}},
                        "nginx": {"rate": {"median": 100.0}, "cpu_us": None}}, "failed": []}


def test_ratios_are_formed_inside_a_round():
    rounds = [(against.figures("embedded", of_section(*ours)), against.figures("embedded", of_section(*other)))
              for ours, other in (((90.0, 5.0), (100.0, 4.0)), ((300.0, 5.0), (200.0, 5.0)),
                                  ((100.0, 5.0), (100.0, 5.0)))]
    found = against.ratios(rounds)
    assert found["embedded", "refusals", "rate"]["ratios"] == [0.9, 1.5, 1.0]
    assert found["embedded", "refusals", "cpu_us"]["ratios"] == [1.25, 1.0, 1.0]
    assert found["embedded", "nginx", "rate"]["ratios"] == [1.0, 1.0, 1.0]
    assert ("embedded", "refusals", "p99_us") not in found
    row = next(row for row in against.rows(found) if row[1:3] == ("refusals", "/s"))
    assert row[3:] == ("100", "100", "1.000", "0.900 to 1.500")


def test_neither_program_is_always_the_first(monkeypatch, tmp_path, capsys):
    make_program(tmp_path / "other/sluice", "exit 1")
    turns = []

    def measure(program, section, _options):
        turns.append((os.path.basename(os.path.dirname(program)), section))
        return {("embedded", "refusals", "rate"): 2.0 if program == "/this/sluice" else 1.0}

    monkeypatch.setattr(against, "measure", measure)
    options = types.SimpleNamespace(against=str(tmp_path / "other/sluice"), only=("embedded", "micro"), rounds=2,
                                    json=True, result=None)
    assert against.run(options, "/this/sluice") == 0
    assert turns == [("this", "embedded"), ("other", "embedded"), ("other", "embedded"), ("this", "embedded")]
    assert json.loads(capsys.readouterr().out)[0]["ratios"] == [2.0, 2.0]


def test_what_cannot_be_run_is_named(programs):
    done = run_bench(programs, "--against", str(programs / "absent"), "--only", "embedded")
    assert done.returncode == 1 and "no program that can be run" in done.stderr
    done = run_bench(programs, "--against", str(programs / "sluice"), "--only", "embedded", "--rounds", "1")
    assert done.returncode == 1 and "ended with status 7" in done.stderr + done.stdout
