"""The disk that forgets, tested by itself: what was synced survives, and nothing else does.

test/disk/test_forget.c writes the files of each case; the tests here check what is left of them.
"""
import os
import random
import signal
import struct
import subprocess
import sys
import textwrap

import pytest

import disklib
import sluicelib

# The story, and all that is left of it: name -> bytes.
LEFT = {
    "file_synced": {"a": b"kept"},
    "file_never_synced": {"a": b""},
    "name_not_synced": {},
    "overwritten": {"d": b"abcdef"},
    "rename_not_synced": {"d": b"old"},
    "rename_synced": {"d": b"new"},
    "remove_not_synced": {"d": b"old"},
    "remove_synced": {},
    "inode_used_again": {"d": b"old"},
    "dsync_open": {"d": b"abXYef\0\0Z"},
    "sync_open_append": {"d": b"abcdef"},
    "rwf_dsync": {"d": b"abXYef"},
    "rwf_sync": {"d": b"abXYef"},
    "rwf_none": {"d": b"abcdef"},
    "range_is_no_sync": {"d": b"abcdef"},
    "truncate_not_synced": {"d": b"abcdef"},
    "truncate_synced": {"d": b"ab\0\0"},
    "open_truncates": {"d": b"\0x"},
    "allocate_not_synced": {"d": b"abc"},
    "allocate_synced": {"d": b"abc" + bytes(4093)},
    "through_dup": {"d": b"abcdefghi"},
    "through_another_descriptor": {"d": b"abcdef"},
    "stdio": {"a": b"kept"},
    "folder_not_synced": {},
    "folder_synced": {"sub/a": b"kept"},
    "sync_all": {"a": b"kept too", "sub/a": b"kept"},
    "linked": {"e": b"abcdef"},
}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    return disklib.compile_c(str(tmp_path_factory.mktemp("story") / "test_forget"), "test_forget.c")


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "data").mkdir()
    return disklib.Disk(str(tmp_path / "data"))


def tell(story, disk, name):
    done = subprocess.run([story, disk.data, name], env=disk.environment(), timeout=60)
    assert done.returncode == -signal.SIGKILL


def left(folder):
    found = {}
    for at, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


@pytest.mark.parametrize("name", LEFT)
def test_only_what_was_synced_is_left(story, disk, name):
    tell(story, disk, name)
    disk.crash()
    assert left(disk.data) == LEFT[name]


def test_without_a_crash_everything_is_left(story, disk):
    tell(story, disk, "file_synced")
    assert left(disk.data) == {"a": b"kept and lost"}


def test_modes_are_kept(story, disk):
    tell(story, disk, "file_synced")
    disk.crash()
    assert os.stat(disk.data + "/a").st_mode & 0o777 == 0o640 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_lay_there_before_is_durable(story, disk):
    os.makedirs(disk.data + "/old/deep")
    for name in ("x", "old/y", "old/deep/z"):
        with open(f"{disk.data}/{name}", "w") as file:
            file.write(name)
    tell(story, disk, "overwritten")
    disk.crash()
    assert left(disk.data) == {"x": b"x", "old/y": b"old/y", "old/deep/z": b"old/deep/z",
                               "d": b"abcdef"}


def test_a_restart_is_no_sync(story, disk):
    """The program dies, the machine does not: the page cache still holds what the disk does not."""
    tell(story, disk, "file_synced")
    tell(story, disk, "nothing")
    disk.crash()
    assert left(disk.data) == {"a": b"kept"}


def test_a_sync_after_a_restart_covers_what_was_written_before(story, disk):
    tell(story, disk, "file_synced")
    tell(story, disk, "sync_by_another_run")
    disk.crash()
    assert left(disk.data) == {"a": b"kept and lost"}


def test_several_crashes_in_one_folder(story, disk):
    for name in ("file_synced", "rename_synced", "remove_not_synced", "folder_synced"):
        tell(story, disk, name)
        disk.crash()
    assert left(disk.data) == {"a": b"kept", "d": b"old", "sub/a": b"kept"}


@pytest.mark.parametrize("pattern, skipped", [("d", True), ("d*", True), ("*", True), ("e:d", True),
                                              ("e*", False), ("x", False)])
def test_a_sync_can_be_taken_out(story, disk, pattern, skipped):
    disk.skip_sync = pattern
    tell(story, disk, "through_another_descriptor")
    assert (disk.stats()["skipped_syncs"] > 0) == skipped
    disk.crash()
    durable = {"d": b""} if pattern != "*" else {}
    assert left(disk.data) == (durable if skipped else {"d": b"abcdef"})


def test_the_counters_say_what_happened(story, disk):
    tell(story, disk, "rwf_dsync")
    stats = disk.stats()
    assert (stats["writes"], stats["written_bytes"], stats["sync_writes"]) == (3, 9, 1)
    assert (stats["syncs"], stats["dir_syncs"]) == (1, 2)  # one at the start
    assert disk.crash().bytes == 1


def test_unsynced_pages_may_survive_in_any_order(story, disk):
    tell(story, disk, "overwritten")
    dropped = disk.crash(random.Random(1), keep=1.0)
    assert (dropped.kept_pages, dropped.bytes) == (1, 0)
    assert left(disk.data) == {"d": b"abXYef"}


def test_threads_that_sync_one_file(story, disk):
    records, threads = 64, 4
    told_path = os.path.join(os.path.dirname(disk.data), "told")
    process = subprocess.Popen([story, disk.data, "threads"], env=disk.environment())

    def told():
        if not os.path.exists(told_path) or os.path.getsize(told_path) < 4 * threads:
            return [0] * threads
        with open(told_path, "rb") as file:
            return struct.unpack("4I", file.read(4 * threads))

    try:
        sluicelib.eventually(lambda: min(told()) >= 50, "50 synced records of each thread")
    finally:
        process.kill()
        process.wait()
    disk.crash()
    durable = left(disk.data)["d"]
    for thread, count in enumerate(told()):
        for n in range(count):
            at = (n * threads + thread) * records
            assert durable[at:at + records] == b"abcd"[thread:thread + 1] * records, (thread, n)


WRITER = textwrap.dedent("""
    import os, sqlite3, sys
    path, told, mode = sys.argv[1:]
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("pragma journal_mode=wal")
    base.execute("pragma synchronous=" + mode)
    base.execute("pragma wal_autocheckpoint=20")
    base.execute("create table if not exists t(n integer primary key, pad blob)")
    out = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    n = base.execute("select coalesce(max(n), 0) from t").fetchone()[0]
    while True:
        n += 1
        base.execute("begin immediate")
        base.execute("insert into t values(?, randomblob(700))", (n,))
        base.execute("commit")
        os.write(out, b"%d\\n" % n)
""")


def sqlite_crashes(disk, mode, times, keep=0.0):
    """Kill a committing program in the middle, several times; how many told rows were lost."""
    import sqlite3
    rng, lost = random.Random(7), 0
    told_path = os.path.join(os.path.dirname(disk.data), "told")

    def told():
        if not os.path.exists(told_path):
            return 0
        with open(told_path) as file:
            lines = file.read().split()
        return int(lines[-1]) if lines else 0

    for _ in range(times):
        goal = told() + rng.randrange(1, 80)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, disk.data + "/base.db", told_path, mode],
            env=disk.environment())
        try:
            sluicelib.eventually(lambda: told() >= goal or process.poll() is not None, "commits")
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
        disk.crash(rng, keep)
        if not os.path.exists(disk.data + "/base.db"):
            return told()
        base = sqlite3.connect(disk.data + "/base.db")
        try:
            assert base.execute("pragma integrity_check").fetchone() == ("ok",)
            last, count = base.execute("select coalesce(max(n), 0), count(*) from t").fetchone()
        except sqlite3.DatabaseError:
            return told()
        finally:
            base.close()
        assert last == count
        lost = max(lost, told() - last)
        if lost:
            return lost
    return lost


@pytest.mark.parametrize("keep", [0.0, 0.5])
def test_sqlite_that_syncs_loses_nothing(disk, keep):
    assert sqlite_crashes(disk, "full", 6, keep) == 0


def test_sqlite_that_does_not_sync_is_seen_to_lose(disk):
    assert sqlite_crashes(disk, "off", 6) > 0
