"""Recorded conversations, and the sessions that they fold to."""
