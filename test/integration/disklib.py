"""The tests' side of the disk that forgets; test/disk/README.md describes it.

Disk builds the library of test/disk, provides the environment to run a program on it, and after the
program was killed leaves in its data folder only what was durable.
"""
import atexit
import collections
import os
import shutil
import subprocess
import tempfile

import sluicelib

PAGE = 4096
SOURCES = os.path.join(sluicelib.ROOT, "test/disk")


def compile_c(target, *sources, shared=False):
    """Build a small C program or library; the compiler is CC, or cc."""
    command = [os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
               "-pthread", "-o", target]
    command += ["-shared", "-fPIC", "-fvisibility=hidden"] if shared else ["-D_FORTIFY_SOURCE=2"]
    command += [os.path.join(SOURCES, source) for source in sources] + ["-ldl"]
    subprocess.run(command, check=True)
    return target


_library = None


def forget_library():
    """The library's path; built once for each run of the tests."""
    global _library
    if _library is None:
        folder = tempfile.mkdtemp(prefix="sluice-forget-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _library = compile_c(os.path.join(folder, "libforget.so"), "forget.c", "image.c",
                             shared=True)
    return _library


class Dropped:
    """What a crash took away: bytes that differ, names that are gone, names that came back."""

    def __init__(self):
        self.bytes = self.kept_pages = self.names_gone = self.names_back = 0

    def __repr__(self):
        return (f"{self.bytes} bytes forgotten, {self.names_gone} names gone, "
                f"{self.names_back} back, {self.kept_pages} unsynced pages kept")


class Disk:
    """A data folder on the disk that forgets.

    keep is the chance that an unsynced page survives the crash all the same, as pages do on a real
    disk, in any order; 0 forgets everything that was not synced.
    """

    def __init__(self, data, skip_sync=None):
        self.data = data.rstrip("/")
        self.image = self.data + ".image"
        self.stats_path = self.data + ".stats"
        self.skip_sync = skip_sync
        self.earlier = collections.Counter()  # what the processes before the present one counted

    def environment(self):
        """For the next process on this disk; each counts from nought."""
        self.earlier = self.stats()
        if os.path.exists(self.stats_path):
            os.unlink(self.stats_path)
        env = dict(os.environ, LD_PRELOAD=forget_library(), SLUICE_FORGET_DATA=self.data,
                   SLUICE_FORGET_IMAGE=self.image, SLUICE_FORGET_STATS=self.stats_path)
        # A sanitizer wants to be the first library; ours makes no memory errors it should see.
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        if self.skip_sync:
            env["SLUICE_FORGET_SKIP_SYNC"] = self.skip_sync
        return env

    def stats(self):
        """What all processes on this disk did, together."""
        total = collections.Counter(self.earlier)
        if os.path.exists(self.stats_path):
            with open(self.stats_path) as file:
                lines = [line.split() for line in file.read().replace("\0", " ").splitlines()]
            # A process killed at its very start has written only a part of its lines.
            total.update({words[0]: int(words[1]) for words in lines if len(words) == 2})
        return total

    def discard(self):
        for path in (self.image, self.data + ".crash"):
            shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(self.stats_path):
            os.unlink(self.stats_path)

    def crash(self, rng=None, keep=0.0):
        """After the kill: replace the data folder by what was durable. The image starts afresh."""
        dropped = Dropped()
        if not os.path.exists(os.path.join(self.image, "names", "0")):
            # Killed before the image was complete, that is, before the program's own first step.
            shutil.rmtree(self.image, ignore_errors=True)
            return dropped
        live = self._live_objects()
        made = self.data + ".crash"
        shutil.rmtree(made, ignore_errors=True)
        os.mkdir(made, 0o700)
        self._make_folder(0, made, "", live, dropped, rng, keep)
        dropped.names_gone = len(names_below(self.data) - names_below(made))
        dropped.names_back = len(names_below(made) - names_below(self.data))
        shutil.rmtree(self.data)
        os.rename(made, self.data)
        shutil.rmtree(self.image)
        return dropped

    def _live_objects(self):
        """Where each object's bytes lie now: object -> path."""
        objects = {}
        with open(os.path.join(self.image, "inodes")) as file:
            for line in file:
                inode, _, number = line.split()
                objects[int(inode)] = int(number)
        found = {}
        for folder, _, files in os.walk(self.data):
            for name in files:
                path = os.path.join(folder, name)
                number = objects.get(os.stat(path).st_ino)
                if number is not None:
                    found[number] = path
        return found

    def _make_folder(self, number, folder, below, live, dropped, rng, keep):
        try:
            with open(os.path.join(self.image, "names", str(number))) as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            kind, mode, child, name = line.split(" ", 3)
            path = os.path.join(folder, name)
            if kind == "d":
                os.mkdir(path)
                self._make_folder(int(child), path, f"{below}{name}/", live, dropped, rng, keep)
            else:
                source = os.path.join(self.image, "objects", child)
                _copy_sparse(source, path)
                # SQLite's index of its log is shared memory, made anew at every start.
                if int(child) in live and not name.endswith("-shm"):
                    _forget_pages(live[int(child)], path, dropped, rng, keep)
            os.chmod(path, int(mode, 8))


def names_below(folder):
    """The names of everything in a folder, as paths below it."""
    found = set()
    for at, folders, files in os.walk(folder):
        found.update(os.path.relpath(os.path.join(at, name), folder) for name in folders + files)
    return found


def _copy_sparse(source, target):
    """A missing source is a file that was never synced: empty."""
    if os.path.exists(source):
        subprocess.run(["cp", "--sparse=auto", "--reflink=auto", source, target], check=True)
    else:
        open(target, "xb").close()


def _forget_pages(live, durable, dropped, rng, keep):
    """Count what of the live file is not durable; with `keep`, some of its pages are, by luck."""
    step = 256 * PAGE
    with open(live, "rb") as now, open(durable, "r+b") as then:
        size = max(os.fstat(now.fileno()).st_size, os.fstat(then.fileno()).st_size)
        for at in range(0, size, step):
            now.seek(at)
            then.seek(at)
            new, old = now.read(step), then.read(step)
            if new == old:
                continue
            for start in range(0, max(len(new), len(old)), PAGE):
                page, before = new[start:start + PAGE], old[start:start + PAGE]
                if page == before:
                    continue
                if page and keep and rng.random() < keep:
                    then.seek(at + start)
                    then.write(page)
                    dropped.kept_pages += 1
                else:
                    dropped.bytes += sum(a != b for a, b in zip(page, before))
                    dropped.bytes += abs(len(page) - len(before))
