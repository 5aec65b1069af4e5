"""The client's side: sessions with agents of either version, as objects."""
