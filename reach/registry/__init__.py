"""Who is there: registrations are judged, told to every router, and taken back when an agent has gone."""
