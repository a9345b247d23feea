"""The pages in docs/results that script/drill, script/simulate and script/bench write."""
import json
import os
import subprocess
import sys
import types

import pytest

import drill
import drills
import resultlib
import setuplib
import sluicelib

sys.path.insert(0, os.path.join(sluicelib.ROOT, "test/bench"))
import bench  # noqa: E402

ORIGIN = {"commit": "abc1234", "date": "2026-01-02 03:04 UTC", "machine": "2 cores",
          "command": "script/drill"}
SIMULATED = {"failures": [{"seed": 7, "promise": 3, "what": "it broke"}], "failures_more": 1,
             "first": 1, "seeds": 9, "requests": 1234567, "answers": 1, "decisions": 5,
             "orders": 4, "steps": 3, "restarts": 2, "workers": 2, "virtual_hours": 0.5,
             "wall_s": 1.25, "cpu_s": 2.5, "decisions_per_s": 4.0, "hash": "00ff",
             "faults": {"power cut": 2500}, "orders_ended": {"PAID": 4},
             "over_seeds": {"requests": {"min": 1, "median": 2, "p90": 3, "max": 4000}}}


def a_run(name, **changes):
    return {"drill": name, "stage": "single", "about": "a fault", "form": "long", "ok": True,
            "told": 1500, "booked": 1500, "final_s": 0.5, "proof": "it died", "origin": ORIGIN,
            **changes}


# ---------------------------------------------------------------- the helper

def test_a_page_says_where_its_figures_come_from():
    text = resultlib.page("Drills", ORIGIN, "body\n\n")
    assert text == ("# Drills\n\n- commit: `abc1234`\n- date: 2026-01-02 03:04 UTC\n"
                    "- machine: 2 cores\n- command: `script/drill`\n\nbody\n")


def test_the_commit_is_dirty_if_more_than_result_pages_changed(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b",
                        *words], check=True, capture_output=True)

    monkeypatch.setattr(resultlib, "ROOT", str(tmp_path))
    monkeypatch.delenv("SLUICE", raising=False)
    monkeypatch.delenv("SIMULATE", raising=False)
    assert resultlib.commit() == "unknown"
    (tmp_path / "docs/results").mkdir(parents=True)
    for name in ("code", "docs/results/a.md"):
        (tmp_path / name).write_text("1")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    clean = resultlib.commit()
    assert len(clean) >= 7 and clean.isalnum()
    (tmp_path / "docs/results/a.md").write_text("2")
    assert resultlib.commit() == clean
    (tmp_path / "code").write_text("2")
    assert resultlib.commit() == clean + "-dirty"
    monkeypatch.setenv("SLUICE", "another")
    assert resultlib.commit().startswith("unknown")


def test_an_origin_has_commit_date_machine_and_command():
    found = resultlib.origin("script/bench", "--only", "redis,relay", "two words")
    assert found["command"] == "script/bench --only redis,relay 'two words'"
    assert found["date"].endswith(" UTC") and f"{os.cpu_count()} cores" in found["machine"]


def test_a_table_aligns_its_numbers():
    assert resultlib.table(("a", "b", "c"), [(1, 2, 3)], slice(1, -1)) == (
        "| a | b | c |\n| --- | ---: | --- |\n| 1 | 2 | 3 |\n")


def test_a_page_is_a_file_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(resultlib, "FOLDER", str(tmp_path / "results"))
    assert resultlib.write("drills", "text") == str(tmp_path / "results/drills.md")
    assert (tmp_path / "results/drills.md").read_text() == "text"


# ---------------------------------------------------------------- drills

def test_drills_are_listed_in_their_order_with_their_sum():
    first, second = (one.name for one in drills.DRILLS[:2])
    page = drill.result_page([a_run(second, told=1), a_run(first), a_run(second, told=2500)])
    assert page.index(f"| `{first}` | single | a fault | long | 1,500 |") < page.index(
        f"| `{second}` | single | a fault | long | 2,500 |")
    assert "| **2 drills** | | | | 4,000 | 3,000 |" in page.replace("|  |", "| |").replace(
        "|  |", "| |")
    assert "None of 2 failed." in page and "`abc1234`" in page


def test_a_failed_drill_is_marked():
    page = drill.result_page([a_run(drills.DRILLS[0].name, ok=False)])
    assert "**(failed)**" in page and "1 of 1 failed." in page


def test_runs_of_two_commits_make_no_page():
    first, second = (one.name for one in drills.DRILLS[:2])
    other = a_run(second, origin=dict(ORIGIN, commit="def5678"))
    with pytest.raises(setuplib.Failed, match="one commit"):
        drill.result_page([a_run(first), other])


def test_a_table_is_made_of_what_json_printed(tmp_path):
    (tmp_path / "runs").write_text(json.dumps(a_run(drills.DRILLS[0].name)) + "\n")
    options = types.SimpleNamespace(result=str(tmp_path / "page"), table=[tmp_path / "runs"])
    assert drill.write_table(options) == 0
    assert "`abc1234`" in (tmp_path / "page.md").read_text()


# ---------------------------------------------------------------- the simulators

def simulate(tmp_path, text, status, *words):
    """script/simulate with a simulator that prints this text."""
    fake = tmp_path / "fake"
    fake.write_text(f"#!/bin/sh\nprintf '%s' '{text}'\nexit {status}\n")
    fake.chmod(0o755)
    return subprocess.run(
        [os.path.join(sluicelib.ROOT, "script/simulate"), "--result", tmp_path / "page", *words],
        env=dict(os.environ, SIMULATE=str(fake)), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=sluicelib.GUARD_S)


def test_a_run_of_the_simulator_becomes_a_page(tmp_path):
    done = simulate(tmp_path, json.dumps(SIMULATED), 1, "--seeds", "9")
    page = (tmp_path / "page.md").read_text()
    assert done.returncode == 1 and done.stdout == page
    assert "Seeds 1 to 9: 2 failed." in page and "- seed 7: promise 3: it broke" in page
    assert "| requests | 1,234,567 |" in page and "| power cut | 2,500 |" in page
    assert f"--result {tmp_path}/page --seeds 9`" in page


@pytest.mark.parametrize("text, status, expected", [("", 2, 2), ("seed 7: trace", 0, 2)])
def test_a_simulator_without_figures_makes_no_page(tmp_path, text, status, expected):
    assert simulate(tmp_path, text, status, "--seed", "7").returncode == expected
    assert not (tmp_path / "page.md").exists()


# ---------------------------------------------------------------- benchmarks

def test_benchmarks_become_a_page():
    ratio = {"what": "ours / peer", "median": 2.0, "min": 1.5, "max": 2.5}
    told = {"failed": [{"what": "embedded", "error": "it did not start"}],
            "redis": [{"title": "buys", "rounds": 2, "load_average": 0.25,
                       "figures": {"ours": {"rate": {"median": 25200.0, "min": 1e3, "max": 3e4}},
                                   "peer": {"rate": {"median": 9.0, "min": 8.0, "max": 10.0}}},
                       "ratios": [dict(ratio, aim=1.6, met=True), ratio]}],
            "micro": {"bench_a": "1 ns"}}
    page = bench.markdown(told)
    assert "**embedded failed:** it did not start" in page
    assert "| median (min to max) | rate/s |\n" in page
    assert "| ours | 25,200 (1,000 to 30,000) |" in page
    assert "| ours / peer | 2.00 (1.50 to 2.50) | 1.6, met |" in page
    assert "```\n1 ns\n```" in page
