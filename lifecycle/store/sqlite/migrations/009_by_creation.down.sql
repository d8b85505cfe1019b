-- Nothing is lost.

DROP INDEX lifecycles_by_creation;
