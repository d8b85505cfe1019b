-- What reviewers used, beside the attempt whose work they read: a row for each of their processes.
-- SQLite changes no primary key, so the table is made anew.

CREATE TABLE new_spending (
    agent_id TEXT NOT NULL,
    birth TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    review INTEGER NOT NULL DEFAULT 0,
    task_id TEXT NOT NULL,
    plan TEXT NOT NULL,
    at REAL NOT NULL,
    program TEXT NOT NULL,
    model TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cost_usd REAL,
    charged_tokens INTEGER NOT NULL,
    charged_usd REAL NOT NULL,
    silent_tokens INTEGER NOT NULL,
    silent_usd INTEGER NOT NULL,
    processes INTEGER NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (agent_id, birth, attempt, review)
) STRICT, WITHOUT ROWID;
INSERT INTO new_spending (agent_id, birth, attempt, task_id, plan, at, program, model, tokens,
    input_tokens, output_tokens, cached_tokens, cost_usd, charged_tokens, charged_usd,
    silent_tokens, silent_usd, processes, seconds)
SELECT agent_id, birth, attempt, task_id, plan, at, program, model, tokens,
    input_tokens, output_tokens, cached_tokens, cost_usd, charged_tokens, charged_usd,
    silent_tokens, silent_usd, processes, seconds FROM spending;
DROP TABLE spending;
ALTER TABLE new_spending RENAME TO spending;
CREATE INDEX spending_by_end ON spending (at);
CREATE INDEX spending_by_plan ON spending (plan, at);
