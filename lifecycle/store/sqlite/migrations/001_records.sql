-- Lifecycles and the rows around them. Instants are seconds since the epoch; JSON stands in TEXT.

CREATE TABLE lifecycles (
    cursor INTEGER PRIMARY KEY AUTOINCREMENT,
    agent_id TEXT NOT NULL UNIQUE,
    task_id TEXT NOT NULL,
    coarse TEXT NOT NULL CHECK (coarse IN ('queued', 'running', 'completed', 'rejected', 'accepted')),
    version INTEGER NOT NULL,
    birth TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    tags TEXT NOT NULL,
    work_kind TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    retry_count INTEGER NOT NULL,
    spawn_count INTEGER NOT NULL,
    task TEXT NOT NULL,
    error TEXT,
    submission_summary TEXT,
    changed_files TEXT,
    facts TEXT NOT NULL,
    work TEXT,
    generated_code TEXT
) STRICT;
CREATE INDEX lifecycles_by_coarse ON lifecycles (coarse, cursor);
CREATE INDEX lifecycles_by_task ON lifecycles (task_id, cursor);
CREATE INDEX lifecycles_by_update ON lifecycles (updated_at);

CREATE TABLE tags (
    tag TEXT NOT NULL,
    cursor INTEGER NOT NULL REFERENCES lifecycles (cursor) ON DELETE CASCADE,
    PRIMARY KEY (tag, cursor)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_by_cursor ON tags (cursor);

CREATE TABLE journal (
    agent_id TEXT NOT NULL REFERENCES lifecycles (agent_id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    rule TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    late INTEGER NOT NULL,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;

-- Orders not known to be carried out; one that is goes away. So the table stays small, and its
-- pages are few and hot. `ord` is the version of the record that gave the order, then its place.
CREATE TABLE outbox (
    agent_id TEXT NOT NULL REFERENCES lifecycles (agent_id) ON DELETE CASCADE,
    effect_id TEXT NOT NULL,
    ord INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (agent_id, effect_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    agent_id TEXT NOT NULL REFERENCES lifecycles (agent_id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    spawn_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,
    outcome TEXT NOT NULL,
    summary TEXT NOT NULL,
    error TEXT NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    head_before TEXT NOT NULL,
    head_after TEXT NOT NULL,
    changed_files INTEGER NOT NULL,
    commits INTEGER NOT NULL,
    saved_ref TEXT NOT NULL,
    swept INTEGER NOT NULL,
    PRIMARY KEY (agent_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    request_id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent_id TEXT NOT NULL REFERENCES lifecycles (agent_id) ON DELETE CASCADE,
    at REAL NOT NULL,
    body TEXT NOT NULL,
    answered_at REAL,
    problem TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX requests_by_agent ON requests (agent_id);
CREATE INDEX requests_waiting ON requests (request_id) WHERE answered_at IS NULL;

CREATE TABLE documents (
    ord INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (collection, key)
) STRICT;
