"""Ten things that programs count on, tried through kombu on whatever is said to stand for a broker.

``python -m scripts.support.kit_compare memory://`` and the like print what holds there;
docs/testing.md has the results side by side.
"""

from __future__ import annotations

import sys
import time
import uuid
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BEHAVIOURS", "holds"]

kombu: Any = import_module("kombu")
TIMEOUT_S = 1.0


class Bench:
    """One connection with a channel, and names of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: Any = kombu.Connection(url, transport_options={"confirm_publish": True})
        self.channel: Any = self.connection.channel()
        self._suffix = uuid.uuid4().hex[:8]

    def name(self, what: str) -> str:
        return f"kit-{what}-{self._suffix}"

    def queue(
        self,
        arguments: dict[str, Any] | None = None,
        what: str = "q",
        *,
        exchange: str = "",
        key: str = "",
    ) -> str:
        """Declare a queue, bound to a topic exchange if one is named."""
        name = self.name(what)
        source = kombu.Exchange(exchange, "topic") if exchange else None
        queue = kombu.Queue(name, source, routing_key=key or name, queue_arguments=arguments)
        queue(self.channel).declare()
        return name

    def publish(self, key: str, body: str = "hare", *, exchange: str = "", **options: Any) -> None:
        producer = kombu.Producer(self.channel)
        producer.publish(body, routing_key=key, exchange=exchange, **options)

    def get(self, queue: str, *, no_ack: bool = True) -> Any:
        """A message, if one comes within a while."""
        end_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end_s:
            message = self.channel.basic_get(queue, no_ack=no_ack)
            if message is not None:
                return self.channel.message_to_python(message)

            time.sleep(0.01)  # another process, or none: there is nothing to be told by

        return None

    def close(self) -> None:
        self.connection.release()


def topic_hash_matches_no_word(bench: Bench) -> bool:
    exchange = bench.name("e")
    queue = bench.queue(exchange=exchange, key="order.#")
    bench.publish("order", exchange=exchange)
    return bench.get(queue) is not None


def a_binding_can_be_taken_back(bench: Bench) -> bool:
    exchange = bench.name("e")
    queue = bench.queue(exchange=exchange, key="order.new")
    bench.channel.queue_unbind(queue, exchange, "order.new")
    bench.publish("order.new", exchange=exchange)
    return bench.get(queue) is None


def a_mandatory_message_comes_back(bench: Bench) -> bool:
    returned: list[object] = []
    bench.channel.events["basic_return"].add(lambda *found: returned.append(found))
    bench.publish(bench.name("nowhere"), mandatory=True)
    return bool(returned)


def a_lost_connection_gives_back_what_it_held(bench: Bench) -> bool:
    queue = bench.queue()
    bench.publish(queue)
    other = Bench(bench.url)
    other.get(queue, no_ack=False)
    other.connection.collect()
    found = bench.get(queue)
    return found is not None and bool(found.delivery_info.get("redelivered"))


def a_rejected_message_is_dead_lettered(bench: Bench) -> bool:
    dead = bench.queue(what="dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = bench.queue(letters)
    bench.publish(queue)
    bench.get(queue, no_ack=False).reject()
    return bench.get(dead) is not None


def messages_expire(bench: Bench) -> bool:
    queue = bench.queue({"x-message-ttl": 20})
    bench.publish(queue)
    time.sleep(0.2)
    return bench.get(queue) is None


def priorities_come_first(bench: Bench) -> bool:
    queue = bench.queue({"x-max-priority": 9})
    bench.publish(queue, "low", priority=1)
    bench.publish(queue, "high", priority=9)
    first = bench.get(queue)
    return first is not None and first.payload == "high"


def a_queue_of_other_arguments_is_refused(bench: Bench) -> bool:
    bench.queue({"x-max-length": 5})
    return _is_refused(lambda: bench.queue({"x-max-length": 6}))


def a_full_queue_refuses_a_publish(bench: Bench) -> bool:
    queue = bench.queue({"x-max-length": 1, "x-overflow": "reject-publish"})
    bench.publish(queue)
    return _is_refused(lambda: bench.publish(queue))


def an_exclusive_queue_is_nobody_elses(bench: Bench) -> bool:
    name = bench.name("own")
    bench.channel.queue_declare(name, exclusive=True)
    other = Bench(bench.url)
    try:
        return _is_refused(lambda: other.channel.queue_declare(name, passive=True))
    finally:
        other.close()


def _is_refused(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception as problem:
        return "40" in str(problem) or "nack" in type(problem).__name__.lower()

    return False


BEHAVIOURS: tuple[Callable[[Bench], bool], ...] = (
    topic_hash_matches_no_word,
    a_binding_can_be_taken_back,
    a_mandatory_message_comes_back,
    a_lost_connection_gives_back_what_it_held,
    a_rejected_message_is_dead_lettered,
    messages_expire,
    priorities_come_first,
    a_queue_of_other_arguments_is_refused,
    a_full_queue_refuses_a_publish,
    an_exclusive_queue_is_nobody_elses,
)


def holds(behaviour: Callable[[Bench], bool], url: str) -> bool:
    """Whether that is so where a URL leads; what raises does not hold."""
    bench = Bench(url)
    try:
        return behaviour(bench)
    except Exception as problem:
        sys.stderr.write(f"{behaviour.__name__}: {problem!r}\n")
        return False
    finally:
        bench.close()


def main(urls: list[str]) -> None:
    for url in urls:
        found = [holds(one, url) for one in BEHAVIOURS]
        sys.stdout.write(f"{url}: {sum(found)} of {len(found)}\n")
        for behaviour, is_so in zip(BEHAVIOURS, found, strict=True):
            sys.stdout.write(f"  {'yes' if is_so else 'no ':<4} {behaviour.__name__}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
