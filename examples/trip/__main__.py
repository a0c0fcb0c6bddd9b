"""A trip of three bookings, undone where one of them fails: `python -m examples.trip`."""

import asyncio

from examples.trip.agents import Ledger, agents
from examples.trip.booking import book_trip
from reach import Reach


async def main() -> None:
    for order, hotel_is_full in (("trip-1", False), ("trip-2", True)):
        ledger = Ledger()
        async with Reach.embedded(*agents(ledger, hotel_is_full=hotel_is_full), agent_id="travel-desk") as reach:
            trip = await book_trip(reach, order)
        print(f"{order}: {'booked' if trip.ok else f'undone, because {trip.why}'}")
        for line in ledger.lines:
            print(f"  {line}")


if __name__ == "__main__":
    asyncio.run(main())
