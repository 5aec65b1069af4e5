"""What stands inside of messages and tool calls: code, diffs, the output of terminals, pictures."""
