"""The agent's side: a prompt handler that serves clients of either version."""
