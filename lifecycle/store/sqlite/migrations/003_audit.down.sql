-- Lost: the audit. Export it before. The note beside the database still names its newest entry, so the
-- next audit begins with an entry that says the trail was cut.

DROP TABLE audit;
