-- Lost: webhook requests that were received, also those that nobody handled yet.

DROP TABLE deliveries;
