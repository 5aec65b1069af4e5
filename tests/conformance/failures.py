"""What is known to fail, and why: (version, subject, id) to a reason.

Each entry is held by a test: it has to go when the subject meets the requirement.
"""

from tests.conformance.subjects import SUBJECTS
from tests.peers.validators import Version

BATCHES = "Batches are read entry by entry, and answered so"
REPLAYED_IDS = "The bridge gives a replayed message another id than its prompt was given"
PRIMERS = "The bridge replays chunks without the whole message that comes before them"
DEAD = "The error for an agent that died has the end of its standard error in its message"
NOT_RESUMED = "The bridge resumes no session of a v1 agent that can neither load nor resume"
NOT_LOADED = "The v1 agent cannot load a session, and v2 has no way to advertise that"

FAILURES: dict[tuple[Version, str, str], str] = {
    **{
        (2, subject.name, requirement): BATCHES
        for subject in SUBJECTS[2]
        for requirement in ("BATCH-201", "BATCH-203", "BATCH-204")
    },
    (1, "bridge-demo", "ERROR-001"): DEAD,
    (2, "bridge-demo", "RESUME-204"): REPLAYED_IDS,
    (2, "bridge-guarded", "RESUME-204"): REPLAYED_IDS,
    (2, "bridge-demo", "RESUME-205"): PRIMERS,
    (2, "bridge-guarded", "RESUME-205"): PRIMERS,
    (2, "bridge-bare", "RESUME-201"): NOT_RESUMED,
    (2, "bridge-bare", "RESUME-203"): NOT_RESUMED,
    (2, "bridge-bare", "RESUME-202"): NOT_LOADED,
    (2, "bridge-bare", "RESUME-204"): NOT_LOADED,
    (2, "bridge-bare", "RESUME-205"): NOT_LOADED,
}
