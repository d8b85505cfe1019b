-- What people are told: stored before it is sent, and for each channel what became of it.
-- `about` is the lasting reason that several notifications may be about, such as a usage limit.

CREATE TABLE notifications (
    ord INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    at REAL NOT NULL,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    about TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    text TEXT NOT NULL,
    command TEXT NOT NULL
) STRICT;
CREATE INDEX notifications_by_about ON notifications (about, ord);
CREATE INDEX notifications_by_time ON notifications (at);

CREATE TABLE notification_sends (
    channel TEXT NOT NULL,
    ord INTEGER NOT NULL REFERENCES notifications (ord) ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'sent', 'folded', 'dropped')),
    tries INTEGER NOT NULL DEFAULT 0,
    due_at REAL NOT NULL,
    settled_at REAL,
    problem TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (channel, ord)
) STRICT, WITHOUT ROWID;
CREATE INDEX notification_sends_by_ord ON notification_sends (ord);
CREATE INDEX notification_sends_waiting ON notification_sends (channel, ord) WHERE state = 'waiting';
CREATE INDEX notification_sends_sent ON notification_sends (channel, settled_at) WHERE state = 'sent';
