"""What happened, kept: recorded conversations and the sessions they add up to."""
