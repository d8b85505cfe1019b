-- What each attempt used. It outlives its lifecycle: sums of plans and days go on counting.
-- charged_*: what is reckoned for processes of it that worked and told nothing; silent_*: how many those were.

CREATE TABLE spending (
    agent_id TEXT NOT NULL,
    birth TEXT NOT NULL,
    attempt INTEGER NOT NULL,
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
    PRIMARY KEY (agent_id, birth, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX spending_by_end ON spending (at);
CREATE INDEX spending_by_plan ON spending (plan, at);
