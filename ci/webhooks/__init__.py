"""Deliveries of forges: checked, kept, and a reason for the provider to look at once."""
