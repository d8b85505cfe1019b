-- Ids and times of instances and their events have defaults: an id ordered by birth (UUID version 7), and
-- the present time. SQLite changes no default of a column, so the tables are made anew.

CREATE TABLE new_instances (
    id TEXT NOT NULL PRIMARY KEY DEFAULT (
        printf('%08x-%04x-7', (julianday('now') - 2440587.5) * 86400000 / 65536,
            CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) & 65535)
        || substr(lower(hex(randomblob(2))), 2) || '-'
        || substr('89ab', 1 + (random() & 3), 1) || substr(lower(hex(randomblob(2))), 2) || '-'
        || lower(hex(randomblob(6)))),
    definition_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('initializing', 'ready', 'processing', 'waiting',
        'suspended', 'terminating', 'terminated', 'failed')),
    health_state TEXT NOT NULL CHECK (health_state IN ('unknown', 'healthy', 'degraded', 'unhealthy')),
    name TEXT,
    owner_id TEXT,
    workspace_id TEXT,
    spawn_options_json TEXT,
    error_message TEXT,
    restart_count INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400),
    updated_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400),
    terminated_at REAL CHECK ((terminated_at IS NOT NULL) = (state IN ('terminated', 'failed'))),
    restarts_total INTEGER NOT NULL DEFAULT 0,
    details_json TEXT NOT NULL DEFAULT '{}',
    active INTEGER NOT NULL GENERATED ALWAYS AS (terminated_at IS NULL) VIRTUAL
) STRICT;
INSERT INTO new_instances (id, definition_id, state, health_state, name, owner_id, workspace_id,
    spawn_options_json, error_message, restart_count, created_at, updated_at, terminated_at,
    restarts_total, details_json)
SELECT id, definition_id, state, health_state, name, owner_id, workspace_id,
    spawn_options_json, error_message, restart_count, created_at, updated_at, terminated_at,
    restarts_total, details_json FROM agent_instances;

CREATE TABLE new_tags (
    instance_id TEXT NOT NULL REFERENCES new_instances (id) ON DELETE CASCADE,
    tag TEXT NOT NULL COLLATE NOCASE,
    active INTEGER NOT NULL,
    PRIMARY KEY (instance_id, tag)
) STRICT, WITHOUT ROWID;
INSERT INTO new_tags SELECT instance_id, tag, active FROM agent_instance_tags;

CREATE TABLE new_events (
    ord INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE DEFAULT (
        printf('%08x-%04x-7', (julianday('now') - 2440587.5) * 86400000 / 65536,
            CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) & 65535)
        || substr(lower(hex(randomblob(2))), 2) || '-'
        || substr('89ab', 1 + (random() & 3), 1) || substr(lower(hex(randomblob(2))), 2) || '-'
        || lower(hex(randomblob(6)))),
    instance_id TEXT NOT NULL REFERENCES new_instances (id) ON DELETE CASCADE,
    event_type TEXT NOT NULL,
    event_data_json TEXT NOT NULL,
    occurred_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400),
    correlation_id TEXT
) STRICT;
INSERT INTO new_events SELECT ord, id, instance_id, event_type, event_data_json, occurred_at, correlation_id
    FROM agent_instance_events;

-- Those that refer to others go first, so that nothing of them goes with what they refer to.
DROP TABLE agent_instance_events;
DROP TABLE agent_instance_tags;
DROP TABLE agent_instances;
ALTER TABLE new_instances RENAME TO agent_instances;
ALTER TABLE new_tags RENAME TO agent_instance_tags;
ALTER TABLE new_events RENAME TO agent_instance_events;

CREATE INDEX idx_agent_instances_state ON agent_instances (state, id);
CREATE INDEX idx_agent_instances_owner ON agent_instances (owner_id, active, id);
CREATE INDEX idx_agent_instances_definition ON agent_instances (definition_id, active, id);
CREATE INDEX idx_agent_instances_active ON agent_instances (state, owner_id, id);
CREATE INDEX idx_agent_instances_health ON agent_instances (health_state, active, id);
CREATE INDEX idx_agent_instances_listed ON agent_instances (active, id);
CREATE INDEX idx_agent_instances_name ON agent_instances (name, id);
CREATE INDEX idx_agent_instances_ended ON agent_instances (terminated_at)
    WHERE terminated_at IS NOT NULL;
CREATE INDEX idx_instance_tags_tag ON agent_instance_tags (tag, active, instance_id);
CREATE TRIGGER agent_instance_tags_follow AFTER UPDATE OF terminated_at ON agent_instances
WHEN (old.terminated_at IS NULL) <> (new.terminated_at IS NULL)
BEGIN
    UPDATE agent_instance_tags SET active = new.terminated_at IS NULL WHERE instance_id = new.id;
END;
CREATE INDEX idx_instance_events_instance
    ON agent_instance_events (instance_id, occurred_at DESC);
CREATE INDEX idx_instance_events_correlation
    ON agent_instance_events (correlation_id) WHERE correlation_id IS NOT NULL;
