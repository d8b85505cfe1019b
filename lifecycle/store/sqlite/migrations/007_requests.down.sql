-- Lost: requests to the runner itself, which name no lifecycle, when a request was begun, and answers.

CREATE TABLE asked (
    request_id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent_id TEXT NOT NULL REFERENCES lifecycles (agent_id) ON DELETE CASCADE,
    at REAL NOT NULL,
    body TEXT NOT NULL,
    answered_at REAL,
    problem TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO asked (request_id, agent_id, at, body, answered_at, problem)
    SELECT request_id, agent_id, at, body, answered_at, problem FROM requests
    WHERE agent_id IS NOT NULL ORDER BY request_id;

-- No number is given twice, as on the way up.
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'asked', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'asked');
UPDATE sqlite_sequence SET seq =
    (SELECT max(seq) FROM sqlite_sequence WHERE name IN ('asked', 'requests')) WHERE name = 'asked';

DROP TABLE requests;
ALTER TABLE asked RENAME TO requests;
CREATE INDEX requests_by_agent ON requests (agent_id);
CREATE INDEX requests_waiting ON requests (request_id) WHERE answered_at IS NULL;
