"""What to show of a session, without any toolkit."""
