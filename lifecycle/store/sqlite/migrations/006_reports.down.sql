-- Lost: what agents' programs told of their attempts.

ALTER TABLE attempts DROP COLUMN before;
ALTER TABLE attempts DROP COLUMN report;
ALTER TABLE attempts DROP COLUMN program;
