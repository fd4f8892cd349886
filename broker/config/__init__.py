"""Configuration: the schema, the loader of YAML files, and the problems it reports."""
