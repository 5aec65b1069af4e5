"""The real peers: the official SDKs, and their verdict on a value.

`install` brings them onto the machine, `validators` asks them. Nothing in the
library depends on this folder.
"""
