"""Protocol messages that the client lacks, each generated from the JSON schema beside this file."""
