"""What people type: prompts, orders, answers to questions."""
