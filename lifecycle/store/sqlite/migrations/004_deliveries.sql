-- Webhook requests that were received, and what came of them. The body stands last: a long one goes
-- on in pages of its own, which nobody reads who wants the rest.

CREATE TABLE deliveries (
    cursor INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    provider TEXT NOT NULL,
    event TEXT NOT NULL,
    received_at REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('received', 'matched', 'unmatched', 'ignored', 'broken')),
    outcome TEXT NOT NULL,
    hint TEXT,
    settled_at REAL,
    headers TEXT NOT NULL,
    packed INTEGER NOT NULL CHECK (packed IN (0, 1)),
    body BLOB NOT NULL
) STRICT;
CREATE INDEX deliveries_by_state ON deliveries (state);
CREATE INDEX deliveries_by_provider ON deliveries (provider);
CREATE INDEX deliveries_by_both ON deliveries (state, provider);
CREATE INDEX deliveries_by_age ON deliveries (received_at) WHERE state <> 'received';
