"""AMQP at the edge: sockets, links, and the translation between the wire and the model."""
