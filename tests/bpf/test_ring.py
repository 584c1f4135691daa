"""A ring buffer laid out as the kernel does it, in plain memory."""

import mmap
import struct

from bpf.ring import BUSY, DISCARDED, HEADER, Ring

SIZE = 64


class FakeRing:
    """The producing side."""

    def __init__(self) -> None:
        self.consumer = bytearray(mmap.PAGESIZE)
        self.producer = bytearray(mmap.PAGESIZE + 2 * SIZE)
        self.ring = Ring(self.consumer, self.producer, SIZE)

    @property
    def consumed(self) -> int:
        return int(struct.unpack_from("Q", self.consumer)[0])

    def put(self, record: bytes, flags: int = 0) -> int:
        """Append a record; returns where it begins. As both mappings are one memory, write both."""
        (position,) = struct.unpack_from("Q", self.producer)
        whole = struct.pack("II", len(record) | flags, 0) + record
        for at, byte in enumerate(whole):
            for copy in (0, SIZE):
                self.producer[mmap.PAGESIZE + copy + (position + at) % SIZE] = byte
        struct.pack_into("Q", self.producer, 0, position + (len(record) + HEADER + 7) // 8 * 8)
        return int(position)

    def finish(self, position: int, length: int) -> None:
        for copy in (0, SIZE):
            struct.pack_into("I", self.producer, mmap.PAGESIZE + copy + position % SIZE, length)


def test_records_come_once_in_order() -> None:
    fake = FakeRing()
    fake.put(b"first")
    fake.put(b"second!!")
    assert list(fake.ring.drain()) == [b"first", b"second!!"]
    assert list(fake.ring.drain()) == []
    assert fake.consumed == 16 + 16


def test_a_record_that_wraps_around_is_whole() -> None:
    fake = FakeRing()
    for number in range(20):
        record = bytes([number]) * (3 + number)
        fake.put(record)
        assert list(fake.ring.drain()) == [record]


def test_discarded_records_are_passed_over() -> None:
    fake = FakeRing()
    fake.put(b"never mind", DISCARDED)
    fake.put(b"kept")
    assert list(fake.ring.drain()) == [b"kept"]


def test_a_record_being_written_ends_the_drain_and_comes_with_the_next() -> None:
    fake = FakeRing()
    fake.put(b"done")
    position = fake.put(b"half", BUSY)
    fake.put(b"after")
    assert list(fake.ring.drain()) == [b"done"]
    assert list(fake.ring.drain()) == []
    fake.finish(position, 4)
    assert list(fake.ring.drain()) == [b"half", b"after"]


def test_what_was_taken_before_stopping_early_is_not_seen_again() -> None:
    fake = FakeRing()
    fake.put(b"one")
    fake.put(b"two")
    assert next(fake.ring.drain()) == b"one"
    assert list(fake.ring.drain()) == [b"two"]
