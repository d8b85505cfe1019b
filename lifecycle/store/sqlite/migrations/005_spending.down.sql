-- Lost: what attempts used. Budgets count from nothing afterwards.

DROP TABLE spending;
