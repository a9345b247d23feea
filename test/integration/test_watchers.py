"""The short forms of script/watchers: thousands of clients wait by SSE, for their orders at several
fronts or for an item at one, and every client gets its events."""
import pytest

import itemwatchlib
import serverlib
import watchlib


@pytest.mark.parametrize("size,shared", [
    pytest.param(watchlib.GATE, True, id="1500"),
    pytest.param(watchlib.SHORT, False, id="6000", marks=pytest.mark.slow)])
def test_everyone_who_watches_is_told(size, shared):
    if serverlib.missing():
        pytest.skip(f"not installed: {serverlib.missing()}")
    figures = watchlib.run(size, shared=shared)
    assert figures["told"]["QUEUED"] == size.watchers
    print(figures)


def test_everyone_who_watches_an_item_is_told_that_it_is_sold_out():
    figures = itemwatchlib.run(itemwatchlib.SHORT)
    assert figures["watchers"] == itemwatchlib.SHORT
    print(figures)
