"""The places that these tests run on: real servers, and where it costs nothing the memory backend as well."""

from tests.contract.conftest import contract_server, drive, place
from tests.integration.conftest import spine

__all__ = ["contract_server", "drive", "place", "spine"]
