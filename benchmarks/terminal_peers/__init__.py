"""The programs of the terminal's benchmark: others that show Markdown while it still comes."""
