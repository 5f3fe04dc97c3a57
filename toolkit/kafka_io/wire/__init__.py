"""Protocol messages that the client lacks, each generated from a JSON schema in this folder."""
