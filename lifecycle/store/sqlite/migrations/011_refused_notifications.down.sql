-- Lost: which notifications a channel keeps refusing; they are tried before later ones again.

ALTER TABLE notification_sends DROP COLUMN refused;
