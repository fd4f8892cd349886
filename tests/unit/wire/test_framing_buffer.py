"""What the decoder of frames keeps between two reads."""

from __future__ import annotations

import pytest

from broker.wire.framing import FrameDecoder
from tests.helpers.session import HEARTBEAT


@pytest.mark.parametrize("size", range(len(HEARTBEAT)))
def test_what_was_taken_is_not_kept(size: int) -> None:
    """An idle connection would keep its last read, of up to 256 KiB, for as long as it idles."""
    decoder = FrameDecoder(4_096)
    decoder.feed(HEARTBEAT * 1_000 + HEARTBEAT[:size])
    found = 0
    while decoder.next_frame():
        found += 1

    assert found == 1_000
    assert len(decoder.buffer) == (size if size < len(HEARTBEAT) - 1 else 0)

    decoder.feed(HEARTBEAT[size:])
    assert decoder.next_frame()
    assert not decoder.next_frame()
