"""Parts of the scripted agent for tests and the demo. Must stay fast to import."""
