"""Retries: what fails is tried again, a little later each time; what fails for good is kept.

Run a broker (`leveret serve`), then this.
"""

from __future__ import annotations

import asyncio
import sys

from broker.client import ClientEvent, Delivery, Exponential, QueueSpec, Retry, connect

MAIL = QueueSpec(
    # Three attempts: two retries, 0.1 and 0.2 seconds after the failures before them.
    retry=Retry(3, Exponential(0.1, factor=2, cap=60), never=(ValueError,)),
    max_dead_letters=1000,
)


async def send_mail(delivery: Delivery[str]) -> None:
    address = delivery.body
    print(f"{address}: attempt {delivery.attempt}")
    if "@" not in address:
        raise ValueError("no address")  # never worth another attempt

    if address.endswith("@down.example"):
        raise ConnectionError("the mail server is down")


async def main(url: str) -> None:
    async with connect(url) as client:
        await client.declare("mail", MAIL)
        settled = asyncio.Semaphore(0)

        def note(event: ClientEvent) -> None:
            if event.kind == "dead":
                settled.release()

        client.on_event(note)
        async with await client.consume("mail", send_mail, prefetch=1, type=str):
            for address in ("a@up.example", "b@down.example", "nobody"):
                await client.send("mail", address)

            for _ in range(2):
                await settled.acquire()

        dead = client.dead("mail")
        for letter in await dead.list():
            print(f"dead: {letter.body}, {letter.error} (attempt {letter.attempt})")

        # The mail server is up again: put those back that can be helped, and throw away the rest.
        fixable = [one.id for one in await dead.list() if one.error_type == "ConnectionError"]
        print(f"{await dead.replay(fixable)} put back, {await dead.purge()} thrown away")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost/"))
