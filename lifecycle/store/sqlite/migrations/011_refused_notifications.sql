-- How often a channel refused a notification in a way that will not change.

ALTER TABLE notification_sends ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;
