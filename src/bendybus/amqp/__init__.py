"""AMQP 1.0 without input or output: bytes in, events out; calls in, bytes out.

Pure: nothing here reads a clock, a socket or a random number, and nothing knows of queues.
"""
