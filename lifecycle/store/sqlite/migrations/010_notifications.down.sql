-- Lost: notifications that were not sent yet, and the list of those that were.

DROP TABLE notification_sends;
DROP TABLE notifications;
