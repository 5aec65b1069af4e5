"""One version into the other, pure."""
