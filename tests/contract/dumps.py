"""Delivery times of pending entries in the future: no command sets one, so they are written into what DUMP gives and RESTORE takes."""

import re
import struct
from collections.abc import Collection

_POLYNOMIAL = 0x95AC9329AC4BC9B5
NEAR_MS = 3_600_000
CHECKSUM_BYTES = 8


def _row(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_row(byte) for byte in range(256)]


def checksum(data: bytes) -> int:
    """CRC-64 as Redis has it."""
    crc = 0
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc


def delivered_later(dump: bytes, entry_ids: Collection[str], by_ms: int, now_ms: int) -> bytes:
    """The dump of a stream whose pending entries were delivered so much later.

    A pending entry is written as its id (two big-endian numbers) and its delivery time (little-endian); where an id stands for something
    else no moment lies behind it.
    """
    body = bytearray(dump[:-CHECKSUM_BYTES])
    for entry_id in entry_ids:
        ms, _, seq = entry_id.partition("-")
        raw = struct.pack(">QQ", int(ms), int(seq))
        moments = [found.end() for found in re.finditer(re.escape(raw), body) if found.end() + 8 <= len(body)]
        found = [(at, struct.unpack_from("<Q", body, at)[0]) for at in moments]
        ((at, delivered_ms),) = [each for each in found if abs(each[1] - now_ms) < NEAR_MS]
        struct.pack_into("<Q", body, at, delivered_ms + by_ms)
    return bytes(body) + struct.pack("<Q", checksum(bytes(body)))
