"""The data folder is removed or replaced under the running server: within a second it promises nothing
more, and says so."""
import os
import shutil
import subprocess
import tempfile

import pytest

from sluicelib import Server, Shop, eventually, problem


def mount_over(data):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "sluice-test", data],
                      capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system needs root")


def replace(data):
    os.rename(data, data + ".old")
    shutil.copytree(data + ".old", data)


def move_into_another(folder):
    """A new folder of this name with the same files in it; what is open stays in the old one."""
    os.rename(folder, folder + ".old")
    os.mkdir(folder)
    for name in os.listdir(folder + ".old"):
        os.rename(os.path.join(folder + ".old", name), os.path.join(folder, name))


def replace_file(path):
    shutil.copy(path, path + ".new")
    os.rename(path + ".new", path)


WAYS = {
    "removed": shutil.rmtree,
    "renamed": lambda data: os.rename(data, data + ".old"),
    "replaced": replace,
    "mounted over": mount_over,
    "made anew around its files": move_into_another,
    "journal made anew around its files": lambda data: move_into_another(
        os.path.join(data, "journal")),
    "journal removed": lambda data: shutil.rmtree(os.path.join(data, "journal")),
    "journal file replaced": lambda data: [
        replace_file(os.path.join(data, "journal", name))
        for name in os.listdir(os.path.join(data, "journal")) if name.endswith(".journal")],
    "ledger removed": lambda data: os.unlink(os.path.join(data, "ledger.db")),
    "ledger's log removed": lambda data: os.unlink(os.path.join(data, "ledger.db-wal")),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_lost_data_folder_ends_promising(way):
    outer = tempfile.mkdtemp(prefix="sluice-lost-")
    data = os.path.join(outer, "data")
    server = Server(data=data)
    try:
        server.start()
        shop = Shop(server)
        lot = shop.lot(total=100, limit=0)
        user = shop.user()
        told = shop.bought(user, shop.ticket(user, lot.item))["order_id"]
        shop.wait_status(user, told, "LOCKED")
        spare = shop.ticket(user, lot.item)
        WAYS[way](data)
        eventually(lambda: server.get("/readyz").status == 503, "the loss to be noticed",
                   guard_s=2)
        assert "data folder" in server.get("/readyz").json()["detail"]
        assert "data_folder.lost" in server.log()
        problem(shop.buy(user, spare), 503, "degraded")
        assert shop.order(user, told)["status"] == "LOCKED"
        assert server.get("/livez").status == 200
    finally:
        server.kill()
        subprocess.run(["umount", "-l", data], capture_output=True, check=False)
        server.discard()
        shutil.rmtree(outer, ignore_errors=True)
