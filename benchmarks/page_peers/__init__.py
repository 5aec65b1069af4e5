"""What the benchmarks of the web page run: another page, a server, and those who observe it."""
