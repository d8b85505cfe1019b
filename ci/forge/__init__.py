"""The provider on any forge: watching, reviews, merges. Knows no forge by name."""
