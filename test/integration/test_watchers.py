"""The short forms of script/watchers: thousands wait by SSE, for their orders at several fronts or for
an item at one, and all are told."""
import pytest

import itemwatchlib
import serverlib
import watchlib


def test_everyone_who_watches_is_told():
    if serverlib.missing():
        pytest.skip(f"not installed: {serverlib.missing()}")
    figures = watchlib.run(watchlib.SHORT)
    assert figures["told"]["QUEUED"] == watchlib.SHORT.watchers
    print(figures)


def test_everyone_who_watches_an_item_is_told_that_it_is_sold_out():
    figures = itemwatchlib.run(itemwatchlib.SHORT)
    assert figures["watchers"] == itemwatchlib.SHORT
    print(figures)
