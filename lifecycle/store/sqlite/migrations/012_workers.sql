-- The machines that take work of this repository, as the coordinator last heard of them.
-- labels, programs, lacks: lists as JSON. clock_offset: seconds that its clock is ahead of ours.

CREATE TABLE workers (
    name TEXT PRIMARY KEY,
    machine TEXT NOT NULL,
    version TEXT NOT NULL,
    labels TEXT NOT NULL,
    slots INTEGER NOT NULL,
    programs TEXT NOT NULL,
    lacks TEXT NOT NULL,
    clock_offset REAL NOT NULL,
    lease REAL NOT NULL,
    draining INTEGER NOT NULL,
    seen_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
