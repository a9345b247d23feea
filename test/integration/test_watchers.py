"""The short form of script/watchers: thousands wait by SSE at several fronts, and all are told."""
import pytest

import serverlib
import watchlib


def test_everyone_who_watches_is_told():
    if serverlib.missing():
        pytest.skip(f"not installed: {serverlib.missing()}")
    figures = watchlib.run(watchlib.SHORT)
    assert figures["told"]["QUEUED"] == watchlib.SHORT.watchers
    print(figures)
