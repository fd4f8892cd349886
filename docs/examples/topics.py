"""Topics: one publishes, several hear what they asked for.

Run a broker (`leveret serve`), then this.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from broker.client import Message, connect


@dataclass
class Sighting:
    hares: int


async def main(url: str) -> None:
    heard = asyncio.Semaphore(0)

    async def northern(message: Message[Sighting]) -> None:
        print(f"north: {message.body.hares} hares, says {message.topic}")
        heard.release()

    async def everything(message: Message[Sighting]) -> None:
        print(f"archive: {message.topic}")
        heard.release()

    async with connect(url) as client:
        # `*` is one word, `#` any number of them. Each handler is called in order.
        await client.subscribe("sightings.north.*", northern, type=Sighting)
        await client.subscribe("sightings.#", everything, type=Sighting)

        await client.publish("sightings.north.meadow", Sighting(2))
        await client.publish("sightings.south.wood", Sighting(1))
        if not await client.publish("weather.north", "rain"):
            print("nobody listens to the weather")

        for _ in range(3):
            await heard.acquire()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost/"))
