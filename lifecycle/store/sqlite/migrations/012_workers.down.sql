-- Lost: which workers there are; each is known again as soon as it is heard of.

DROP TABLE workers;
