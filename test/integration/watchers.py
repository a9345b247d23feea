"""script/watchers: 100,000 buyers wait for their orders by SSE at once, and all get every event.

  script/watchers                   8 fronts, 100,000 watchers
  script/watchers --short           3 fronts, 6,000 watchers: as in script/test
  script/watchers --item            one server with the embedded engine; as many clients as it may
                                    hold watch an item, and all must learn that it is sold out
  script/watchers --json            the figures as JSON

Runs the distributed engine on servers that it starts itself, on loopback: Redis, RabbitMQ,
MariaDB. A process may have at most 20,000 files, so there are as many client processes as fronts.
Every order goes from QUEUED to LOCKED and on to PAID, CANCELLED or EXPIRED; one watcher in five
reconnects once with Last-Event-ID at another front. The events of each are compared with the
ledger. Exit 0: all got everything, in order and once; 1: not; 2: usage. The memory of a watcher
and the delay of its events are printed and are no criterion. Installs and builds what is missing;
$SLUICE names another program to test, and watch_crowd is expected in the folder `test` beside it.
"""
import argparse
import json
import signal
import sys

import itemwatchlib
import setuplib
import watchlib


def main():
    parser = argparse.ArgumentParser(prog="script/watchers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="3 fronts, 6,000 watchers")
    parser.add_argument("--item", action="store_true", help="watchers of an item at one server")
    parser.add_argument("--fronts", type=int, help="so many fronts")
    parser.add_argument("--watchers", type=int, help="so many watchers")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    options = parser.parse_args()
    size = watchlib.SHORT if options.short else watchlib.LONG
    size.fronts = options.fronts or size.fronts
    size.watchers = options.watchers or size.watchers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that finally blocks run
    try:
        setuplib.build("cluster", "watchers", targets=("sluice", "watch_crowd"))
        if options.item:
            short = itemwatchlib.SHORT if options.short else None
            figures = itemwatchlib.run(options.watchers or short, setuplib.progress)
        else:
            figures = watchlib.run(size, setuplib.progress)
    except (setuplib.Failed, AssertionError) as failure:
        setuplib.progress("")
        print(f"watchers: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    setuplib.progress("")
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:18} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
