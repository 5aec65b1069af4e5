"""The tests. A name is a sentence about behaviour; nothing here sleeps."""
