-- Lifecycles are listed by when they were made.

CREATE INDEX lifecycles_by_creation ON lifecycles (created_at);
