"""The processes of reach: which services make a router, a registrar or an archiver, and how one starts and drains."""
