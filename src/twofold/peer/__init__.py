"""Order: a connection driven over a transport, and one inbox for each session."""
