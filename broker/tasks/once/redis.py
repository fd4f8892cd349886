"""An idempotency store in Redis (extra ``redis``). Layer: tasks.

Invariant: every step that looks before it writes is one script, which Redis runs whole. What a
script decides by is the server's clock: keys expire there. A claim lives as long as its lease, so
that it goes by itself when its owner does; the set of an owner's claims only helps to find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.tasks.once.base import TTL_S, Claim, ClaimState, Effect, IdempotencyStore
from broker.tasks.redis_link import RedisLink

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RedisOnce"]

# A value is "h" and the owner while it is held, "d" and the outcome when it is done.
CLAIM: Final = """
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, 1) == 'd' then
    return {'done', string.sub(value, 2)}
end
if value and string.sub(value, 2) ~= ARGV[1] then
    return {'held', tostring(redis.call('PTTL', KEYS[1]))}
end
redis.call('SET', KEYS[1], 'h' .. ARGV[1], 'PX', ARGV[2])
redis.call('SADD', KEYS[2], KEYS[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {'ours', ''}
"""
COMPLETE: Final = """
if redis.call('GET', KEYS[1]) ~= 'h' .. ARGV[1] then
    return 0
end
local position = 4
while position <= #ARGV do
    local count = tonumber(ARGV[position])
    redis.call(unpack(ARGV, position + 1, position + count))
    position = position + 1 + count
end
redis.call('SET', KEYS[1], 'd' .. ARGV[2], 'PX', ARGV[3])
redis.call('SREM', KEYS[2], KEYS[1])
return 1
"""
RELEASE: Final = """
if redis.call('GET', KEYS[1]) == 'h' .. ARGV[1] then
    redis.call('DEL', KEYS[1])
end
redis.call('SREM', KEYS[2], KEYS[1])
return 1
"""
RELEASE_OWNER: Final = """
for _, key in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    if redis.call('GET', key) == 'h' .. ARGV[1] then
        redis.call('DEL', key)
    end
end
redis.call('DEL', KEYS[1])
return 1
"""
RENEW: Final = """
for _, key in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    if redis.call('GET', key) == 'h' .. ARGV[1] then
        redis.call('PEXPIRE', key, ARGV[2])
    else
        redis.call('SREM', KEYS[1], key)
    end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""


class RedisOnce(IdempotencyStore):
    """Remembers in Redis. Effects are Redis commands: ``Effect("INCRBY", ("stock", -1))``.

    A command that Redis refuses fails the task, but commands before it in the same task have been
    carried out: Redis does not take anything back.
    """

    has_effects = True

    def __init__(
        self,
        url: str = "redis://127.0.0.1:6379/0",
        *,
        ttl: float = TTL_S,
        prefix: str = "leveret:once:",
    ) -> None:
        super().__init__(ttl=ttl)
        self._link = RedisLink(url)
        self._prefix = prefix

    async def claim(self, key: str, owner: str, *, lease_s: float) -> Claim:
        answer = await self._link.script(
            CLAIM, self._keys(key, owner), owner, _ms(lease_s), _ms(max(lease_s, 60.0) * 10)
        )
        assert isinstance(answer, list)
        state, detail = ClaimState(bytes(answer[0]).decode()), bytes(answer[1])
        if state is ClaimState.DONE:
            return Claim(state, outcome=detail)

        return Claim(state, wait_s=max(int(detail or b"0"), 0) / 1000)

    async def complete(
        self, key: str, owner: str, outcome: bytes, effects: Sequence[Effect] = ()
    ) -> bool:
        commands: list[object] = []
        for statement, arguments in effects:
            commands += [1 + len(arguments), statement, *arguments]

        answer = await self._link.script(
            COMPLETE, self._keys(key, owner), owner, outcome, _ms(self.ttl_s), *commands
        )
        return answer == 1

    async def release(self, key: str, owner: str) -> None:
        await self._link.script(RELEASE, self._keys(key, owner), owner)

    async def release_owner(self, owner: str) -> None:
        await self._link.script(RELEASE_OWNER, [self._owner_key(owner)], owner)

    async def renew(self, owner: str, *, lease_s: float) -> None:
        await self._link.script(
            RENEW, [self._owner_key(owner)], owner, _ms(lease_s), _ms(max(lease_s, 60.0) * 10)
        )

    async def forget(self, key: str) -> None:
        await self._link.run(lambda redis: redis.delete(self._prefix + key))

    def is_away(self, problem: Exception) -> bool:
        from redis.exceptions import ConnectionError as NoConnection
        from redis.exceptions import TimeoutError as NoAnswer

        return isinstance(problem, NoConnection | NoAnswer) or super().is_away(problem)

    async def close(self) -> None:
        await self._link.close()

    def _keys(self, key: str, owner: str) -> list[str]:
        return [self._prefix + key, self._owner_key(owner)]

    def _owner_key(self, owner: str) -> str:
        return f"{self._prefix}owner:{owner}"


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
