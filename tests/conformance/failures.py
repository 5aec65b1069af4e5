"""What is known to fail, and why: (version, subject, id) to a reason.

Each entry is held by a test: it has to go when the subject meets the requirement.
"""

from tests.peers.validators import Version

NOT_LOADED = "The v1 agent cannot load a session, and v2 has no way to advertise that"
NOT_LISTED = "The v1 agent cannot list its sessions, and v2 has no way to advertise that"

FAILURES: dict[tuple[Version, str, str], str] = {
    (2, "bridge-bare", "RESUME-202"): NOT_LOADED,
    (2, "bridge-bare", "RESUME-204"): NOT_LOADED,
    (2, "bridge-bare", "RESUME-205"): NOT_LOADED,
    (2, "bridge-bare", "LIST-201"): NOT_LISTED,
    (2, "bridge-bare", "LIST-202"): NOT_LISTED,
    (2, "bridge-bare", "LIST-203"): NOT_LISTED,
    (2, "bridge-bare", "LIST-204"): NOT_LISTED,
}
