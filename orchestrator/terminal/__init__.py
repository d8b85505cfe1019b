"""What all commands share: options, exit codes, text for terminals."""
