"""The jobs: read, call the audits, rule, report."""
