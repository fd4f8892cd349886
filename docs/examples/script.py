"""A script without an event loop: the same client, the same names, and no `await`.

Run a broker (`leveret serve`), then this.
"""

from __future__ import annotations

import sys

from broker.client import QueueSpec, Retry
from broker.client.sync import connect


def main(url: str) -> None:
    with connect(url) as client:
        client.declare("numbers", QueueSpec(retry=Retry(1), max_priority=9))
        for number in (3, 1, 0, 2):
            client.send("numbers", number, priority=number)

        # Ends when no message has come for a second.
        for delivery in client.receive("numbers", wait=1):
            try:
                with delivery as number:
                    print(f"10 / {number} = {10 / number:.2f}")
            except ZeroDivisionError as problem:
                print(f"failed: {problem}")

        stats = client.stats("numbers")
        print(f"{stats.ready} left, {stats.dead} dead")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost/")
