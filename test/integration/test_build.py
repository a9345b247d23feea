"""script/build with fake tools: when it configures, what it prints, how it fails."""
import os
import shutil
import subprocess

import pytest

import sluicelib

PACKAGES = "# group: build\ngcc\n\n# group: test\nlibcmocka-dev\n"


class Tree:
    """A repository with nothing in it but script/build; bootstrap, cmake and ninja note that they
    were called, and do what a test asks for."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "script").mkdir()
        (folder / "bin").mkdir()
        shutil.copy(os.path.join(sluicelib.ROOT, "script/build"), folder / "script/build")
        (folder / "script/packages").write_text(PACKAGES)
        (folder / "CMakePresets.json").write_text("{}\n")
        self.stand_in("script/bootstrap")
        self.stand_in("bin/dpkg-query", f"cat {folder}/installed", noted=False)
        self.stand_in("bin/cmake", f"touch {folder}/build/$2/build.ninja")
        self.stand_in("bin/ninja", "echo 'ninja: no work to do.'")
        self.installed("gcc 1")

    def stand_in(self, name, text=":", noted=True):
        path = self.folder / name
        note = f'echo "{path.name} $*" >>{self.folder}/calls' if noted else ""
        path.write_text(f"#!/bin/sh\n{note}\n{text}\n")
        path.chmod(0o755)

    def installed(self, *packages):
        (self.folder / "installed").write_text("".join(f"installed {one}\n" for one in packages))

    def run(self, *words):
        """(exit status, what was said, who was called with what)."""
        calls = self.folder / "calls"
        calls.write_text("")
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        done = subprocess.run([self.folder / "script/build", *words], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=dict(os.environ, PATH=path),
                              timeout=sluicelib.GUARD_S)
        return done.returncode, done.stdout, calls.read_text().splitlines()


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def configured(called):
    return any(line.startswith("cmake") for line in called)


def test_the_first_time_it_installs_configures_and_builds(tree):
    build = tree.folder / "build"
    assert tree.run() == (0, "", ["bootstrap build", "cmake --preset release",
                                  f"ninja -C {build}/release sluice"])
    assert tree.run("--preset", "fuzz", "--group", "fuzz", "--group", "test", "a", "b") == (
        0, "", ["bootstrap build fuzz test", "cmake --preset fuzz", f"ninja -C {build}/fuzz a b"])


def test_it_configures_again_only_where_the_packages_changed(tree):
    assert configured(tree.run()[2])
    assert not configured(tree.run()[2])
    tree.installed("gcc 1", "libcmocka-dev 1")
    assert configured(tree.run()[2])
    tree.installed("gcc 2", "libcmocka-dev 1")
    assert configured(tree.run()[2])
    assert not configured(tree.run()[2])
    (tree.folder / "CMakePresets.json").write_text('{ "version": 6 }\n')
    assert configured(tree.run()[2])


def test_it_configures_again_after_it_could_not(tree):
    tree.stand_in("bin/cmake", "echo 'CMake Error: no compiler'; exit 1")
    code, said, called = tree.run()
    assert code == 1 and "CMake Error: no compiler" in said, said
    assert not any(line.startswith("ninja") for line in called)
    tree.stand_in("bin/cmake", f"touch {tree.folder}/build/release/build.ninja")
    assert tree.run()[0] == 0


def test_it_says_once_that_it_builds(tree):
    tree.stand_in("bin/ninja", "echo '[0/1] Re-checking globbed directories...'\n"
                               "echo '[1/2] Building a.o'\necho '[2/2] Linking a'")
    assert tree.run("a")[:2] == (0, "building release: a\n")


def test_a_build_that_fails_shows_what_the_compiler_said(tree):
    tree.stand_in("bin/ninja", "echo '[1/2] Building a.o'\necho 'FAILED: a.o'\n"
                               "echo 'a.c:1:1: error: nonsense'\nexit 1")
    code, said, _ = tree.run()
    assert code == 1 and "a.c:1:1: error: nonsense" in said and "the build failed" in said, said


def test_what_cannot_be_installed_ends_it(tree):
    tree.stand_in("script/bootstrap", "exit 1")
    assert tree.run() == (1, "", ["bootstrap build"])


@pytest.mark.parametrize("words", (["--preset"], ["--nonsense"]))
def test_a_wrong_use_does_nothing(tree, words):
    code, _, called = tree.run(*words)
    assert code == 2 and called == []
