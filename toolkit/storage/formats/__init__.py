"""How files are written: whole, as JSON, as YAML."""
