"""What the other doors can take: messages over HTTP."""
