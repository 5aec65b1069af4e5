"""What people type: prompts, slash commands, answers to questions."""
