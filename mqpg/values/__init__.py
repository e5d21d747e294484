"""What the library passes around: messages, choices, handles, drafts, errors and their remedies."""
