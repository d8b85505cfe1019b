-- Lost: everything.

DROP TABLE documents;
DROP TABLE requests;
DROP TABLE attempts;
DROP TABLE outbox;
DROP TABLE journal;
DROP TABLE tags;
DROP TABLE lifecycles;
