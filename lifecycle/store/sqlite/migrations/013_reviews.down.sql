-- Lost: what reviewers used, by itself. It is added to the attempts whose work they read.

CREATE TABLE old_spending (
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
INSERT INTO old_spending
SELECT own.agent_id, own.birth, own.attempt, own.task_id, own.plan, max(each.at), own.program,
    own.model, sum(each.tokens), sum(each.input_tokens), sum(each.output_tokens),
    sum(each.cached_tokens), sum(each.cost_usd), sum(each.charged_tokens), sum(each.charged_usd),
    sum(each.silent_tokens), sum(each.silent_usd), sum(each.processes), sum(each.seconds)
FROM spending AS own JOIN spending AS each
    ON each.agent_id = own.agent_id AND each.birth = own.birth AND each.attempt = own.attempt
WHERE own.review = (SELECT min(review) FROM spending AS least
    WHERE least.agent_id = own.agent_id AND least.birth = own.birth AND least.attempt = own.attempt)
GROUP BY own.agent_id, own.birth, own.attempt;
DROP TABLE spending;
ALTER TABLE old_spending RENAME TO spending;
CREATE INDEX spending_by_end ON spending (at);
CREATE INDEX spending_by_plan ON spending (plan, at);
