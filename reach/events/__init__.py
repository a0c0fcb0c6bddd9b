"""What is kept of the hop records after Redis has let them go: stores, the service that fills them, and questions to them."""
