-- Instances of agents that a spawner started. Ids are ordered by birth, so `id` orders every index.

CREATE TABLE agent_instances (
    id TEXT NOT NULL PRIMARY KEY,
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
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    terminated_at REAL CHECK ((terminated_at IS NOT NULL) = (state IN ('terminated', 'failed'))),
    restarts_total INTEGER NOT NULL DEFAULT 0,
    details_json TEXT NOT NULL DEFAULT '{}',
    active INTEGER NOT NULL GENERATED ALWAYS AS (terminated_at IS NULL) VIRTUAL
) STRICT;
CREATE INDEX idx_agent_instances_state ON agent_instances (state, id);
CREATE INDEX idx_agent_instances_owner ON agent_instances (owner_id, active, id);
CREATE INDEX idx_agent_instances_definition ON agent_instances (definition_id, active, id);
CREATE INDEX idx_agent_instances_active ON agent_instances (state, owner_id, id);
CREATE INDEX idx_agent_instances_health ON agent_instances (health_state, active, id);
CREATE INDEX idx_agent_instances_listed ON agent_instances (active, id);
CREATE INDEX idx_agent_instances_name ON agent_instances (name, id);
CREATE INDEX idx_agent_instances_ended ON agent_instances (terminated_at)
    WHERE terminated_at IS NOT NULL;

CREATE TABLE agent_instance_tags (
    instance_id TEXT NOT NULL REFERENCES agent_instances (id) ON DELETE CASCADE,
    tag TEXT NOT NULL COLLATE NOCASE,
    active INTEGER NOT NULL,
    PRIMARY KEY (instance_id, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_instance_tags_tag ON agent_instance_tags (tag, active, instance_id);
CREATE TRIGGER agent_instance_tags_follow AFTER UPDATE OF terminated_at ON agent_instances
WHEN (old.terminated_at IS NULL) <> (new.terminated_at IS NULL)
BEGIN
    UPDATE agent_instance_tags SET active = new.terminated_at IS NULL WHERE instance_id = new.id;
END;

CREATE TABLE agent_instance_events (
    ord INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    instance_id TEXT NOT NULL REFERENCES agent_instances (id) ON DELETE CASCADE,
    event_type TEXT NOT NULL,
    event_data_json TEXT NOT NULL,
    occurred_at REAL NOT NULL,
    correlation_id TEXT
) STRICT;
CREATE INDEX idx_instance_events_instance
    ON agent_instance_events (instance_id, occurred_at DESC);
CREATE INDEX idx_instance_events_correlation
    ON agent_instance_events (correlation_id) WHERE correlation_id IS NOT NULL;

-- Attempts are listed among instances: the youngest first, and by tag in whatever case.
CREATE INDEX attempts_by_start ON attempts (started_at);
CREATE INDEX tags_in_any_case ON tags (tag COLLATE NOCASE, cursor);
