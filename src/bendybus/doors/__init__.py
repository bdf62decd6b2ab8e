"""The ways in: sockets that listen, with TLS or without, and the certificates they show."""
