"""`sluice queue` on a real RabbitMQ: it lists parked messages, sends them again, and reports errors."""
import json
import subprocess

import pytest

import enginelib
import rabbitlib
import sluicelib

pytestmark = pytest.mark.skipif(rabbitlib.missing() != "",
                                reason=f"not installed: {rabbitlib.missing()}")

ORDER = "20000000002R00000000050000"  # the one order of buyer 5 for item 11
MESSAGE = f"1 3 7 {ORDER} 5 11 2 1700000000000"


@pytest.fixture(scope="module")
def broker():
    """Others use it, too: every queue here has a name of its own."""
    return enginelib.shared_rabbit()


def run(*arguments):
    done = subprocess.run([sluicelib.BINARY, "queue", *arguments], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=sluicelib.GUARD_S)
    return done.returncode, done.stdout, done.stderr


def queue(broker, word, name, *arguments):
    code, out, err = run(word, "--set", f"amqp.url={broker.url()}", "--set", f"amqp.queue={name}",
                         "--json", *arguments)
    assert code == 0 and not err, (code, out, err)
    return json.loads(out)


def park(broker, name, *bodies):
    broker.publish(f"{name}.dead", f"{name}.parked", *bodies)


@pytest.mark.asan
def test_parked_messages_are_shown_and_sent_round(broker):
    name = enginelib.unique("sluice.one.")
    assert queue(broker, "list", name) == {
        "queue": name, "ready": 0, "retry": 0, "parked": 0, "messages": []}
    park(broker, name, MESSAGE, "no message of ours", "caf\u00e9 \x01")
    shown = queue(broker, "list", name)
    assert shown["parked"] == 3 and shown["ready"] == 0
    assert shown["messages"] == [
        {"attempts": 0, "order_id": ORDER, "user_id": 5, "item_id": 11, "qty": 2, "segment": 3,
         "epoch": 7, "created_at_ms": 1700000000000},
        {"attempts": 0, "text": "no message of ours"}, {"attempts": 0, "text": "caf\u00e9 \x01"}]
    # Looking moved nothing, and a table shows the same.
    code, out, err = run("list", "--set", f"amqp.url={broker.url()}", "--set",
                         f"amqp.queue={name}", "--limit", "10")
    assert code == 0 and not err
    lines = out.splitlines()
    assert lines[0] == f"{name}: 0 ready, 0 waiting for a retry, 3 parked"
    assert ORDER in lines[3] and "no message of ours" in lines[4] and len(lines) == 6
    sent = queue(broker, "redrive", name, "--limit", "1")
    assert sent["sent"] == 1 and sent["messages"][0]["order_id"] == ORDER
    assert (sent["ready"], sent["parked"]) == (1, 2)
    sent = queue(broker, "redrive", name)
    assert (sent["sent"], sent["ready"], sent["parked"]) == (2, 3, 0)
    assert queue(broker, "redrive", name)["sent"] == 0


def test_many_parked_messages_go_round_once(broker):
    name = enginelib.unique("sluice.many.")
    queue(broker, "list", name)
    park(broker, name, *map(str, range(1, 601)))
    shown = queue(broker, "list", name, "--limit", "1000")
    assert [m["text"] for m in shown["messages"]] == [str(n) for n in range(1, 601)]
    sent = queue(broker, "redrive", name)
    assert (sent["sent"], sent["ready"], sent["parked"]) == (600, 600, 0)
    assert sorted(int(m["text"]) for m in sent["messages"]) == list(range(1, 601))


def test_a_look_at_some_keeps_all(broker):
    """A quorum queue puts what was looked at behind the rest: another look shows others first."""
    name = enginelib.unique("sluice.some.")
    queue(broker, "list", name)
    park(broker, name, "1", "2", "3")
    for limit in (1, 2, 3, 2, 3):
        assert len(queue(broker, "list", name, "--limit", str(limit))["messages"]) == limit
    shown = queue(broker, "list", name)
    assert sorted(m["text"] for m in shown["messages"]) == ["1", "2", "3"]


def test_what_is_wrong_is_told(broker, tmp_path):
    url = f"amqp.url={broker.url()}"
    code, out, err = run("list")
    assert (code, out) == (1, "") and "amqp.url is empty" in err
    port = sluicelib.private_port()
    code, out, err = run("list", "--set", f"amqp.url=amqp://me:hush@127.0.0.1:{port}/")
    assert (code, out) == (1, "") and f"cannot connect to 127.0.0.1:{port}" in err
    code, out, err = run("list", "--set", f"amqp.url=amqp://sluice:hush@127.0.0.1:{broker.port}/")
    assert (code, out) == (1, "") and "refused user sluice" in err and "hush" not in err
    name = enginelib.unique("sluice.file.")
    password = tmp_path / "password"
    password.write_text(rabbitlib.PASSWORD + "\n")
    config = tmp_path / "sluice.conf"
    config.write_text(f'amqp {{\n  url = "amqp://sluice:hush@127.0.0.1:{broker.port}/%2f"\n'
                      f'  password_file = "{password}"\n  queue = "{name}"\n}}\n')
    code, out, err = run("list", "--config", str(config))
    assert code == 0 and out.startswith(f"{name}: 0 ready"), err
    code, out, err = run("list", "--config", str(config), "--set", "amqp.quorum=0")
    assert (code, out) == (1, "")
    assert f"queue {name}.parked exists with other arguments" in err and "delete it" in err
    for arguments in ([], ["list", "redrive"], ["drop"], ["list", "--limit", "0"],
                      ["list", "--nonsense"], ["list", "--set"]):
        code, out, err = run(*arguments, *(["--set", url] if "--set" not in arguments else []))
        assert (code, out) == (2, "") and err.startswith("sluice queue: "), (arguments, err)
    code, out, err = run("list", "--set", "amqp.url=amqp://hush")
    assert (code, out) == (1, "") and "amqp.url" in err
    code, out, err = run("--help")
    assert code == 0 and out.startswith("Usage: sluice queue list|redrive") and not err
