-- What the agent's own program told of an attempt. `before` is what earlier, interrupted processes of
-- the same attempt used. Both are JSON, or NULL.

ALTER TABLE attempts ADD COLUMN program TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN report TEXT;
ALTER TABLE attempts ADD COLUMN before TEXT;
