"""The registry: every other file here is a model that bears the file's name."""
