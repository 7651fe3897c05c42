"""The model text: its verbs, its layouts and the registry of model files."""
