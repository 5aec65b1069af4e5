"""The terminal client: from the start of an agent to the end of the conversation."""
