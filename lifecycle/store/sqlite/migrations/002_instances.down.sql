-- Lost: instances that a spawner started, with their events. None may be alive.

DROP INDEX tags_in_any_case;
DROP INDEX attempts_by_start;
DROP TABLE agent_instance_events;
DROP TABLE agent_instance_tags;
DROP TABLE agent_instances;
