"""A BPF ring buffer, read where it lies.

The kernel maps it as a page with the consumer's position, a page with the producer's, and the data twice in a
row, so that a record that wraps around is still in one piece.
"""

import mmap
import struct
from collections.abc import Iterator
from typing import Final

import trio

BUSY: Final = 1 << 31  # being written
DISCARDED: Final = 1 << 30
HEADER: Final = 8
POSITION: Final = struct.Struct("Q")


class Ring:
    """Records of one ring buffer.

    Programs that find it full count that themselves, in a cell of their own, and try again later.

    Args:
        consumer: the consumer's page, writable.
        producer: the producer's page and after it the data, twice.
        size: bytes of data, a power of two.
    """

    def __init__(
        self, consumer: "mmap.mmap | bytearray", producer: "mmap.mmap | bytes | bytearray", size: int
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._size = size
        self._descriptor: int | None = None

    @classmethod
    def open(cls, descriptor: int, size: int) -> "Ring":
        """Map the ring buffer behind a descriptor, which must stay open as long as this is used."""
        page = mmap.PAGESIZE
        consumer = mmap.mmap(descriptor, page, mmap.MAP_SHARED)
        producer = mmap.mmap(descriptor, page + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        ring = cls(consumer, producer, size)
        ring._descriptor = descriptor
        return ring

    def drain(self) -> Iterator[bytes]:
        """Records that are there now, oldest first; each is given back to the kernel once it was taken.

        Ends early at a record that is still being written: it comes with the next call.
        """
        (position,) = POSITION.unpack_from(self._consumer)
        (end,) = POSITION.unpack_from(self._producer)
        while position < end:
            at = mmap.PAGESIZE + position % self._size
            (header,) = struct.unpack_from("I", self._producer, at)
            if header & BUSY:
                return
            length = header & ~DISCARDED
            record = self._producer[at + HEADER : at + HEADER + length]
            position += (length + HEADER + 7) // 8 * 8
            POSITION.pack_into(self._consumer, 0, position)
            if not header & DISCARDED:
                yield bytes(record)

    async def wait(self) -> None:
        """Until there is something to drain."""
        assert self._descriptor is not None, "only a ring of the kernel can be waited for"  # noqa: S101
        await trio.lowlevel.wait_readable(self._descriptor)

    def close(self) -> None:
        for pages in (self._consumer, self._producer):
            if isinstance(pages, mmap.mmap):
                pages.close()
