"""What a notification is, and where one may go: values only. Must not send anything."""
