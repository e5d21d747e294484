"""What roles try that may not: each test attacks with a role that has the rights of an application, or none."""
